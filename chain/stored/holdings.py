"""Which wallets bots hold now, as SQL: the open rows of Attachment."""

# The numbers of these wallets, each once.
HELD = "(SELECT wallet_id FROM attachment WHERE detached_at IS NULL)"
# Their count, from the index of open rows alone.
COUNT_HELD = "(SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL)"
# Whether a bot holds wallet `w`, for a query of few wallets.
IS_HELD = """EXISTS (
SELECT 1 FROM attachment a WHERE a.wallet_id = w.id AND a.detached_at IS NULL)"""
# The attachment of bot `b` that leads: of those it holds, the first.
LEAD = """(
SELECT l.id FROM attachment l WHERE l.bot_id = b.id AND l.detached_at IS NULL
ORDER BY l.attached_at, l.id LIMIT 1)"""
# The same, where the attachments of a retired bot are those that ended with it.
LAST_LEAD = """(
SELECT l.id FROM attachment l
WHERE l.bot_id = b.id AND (l.detached_at IS NULL OR l.detached_at = b.retired_at)
ORDER BY l.attached_at, l.id LIMIT 1)"""
