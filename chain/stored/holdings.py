"""Which bot holds or held which wallets, as SQL: the one that leads and those beside it alike."""

# Every stay of a wallet with a bot, from when to when in ms (null: until now).
HOLDINGS = """(
SELECT bot_id, wallet_id, ownership, attached_at, detached_at FROM attachment
UNION ALL SELECT bot_id, wallet_id, 'proven', attached_at, detached_at FROM companion)"""
# The numbers of the wallets that bots hold now, each once.
HELD = """(
SELECT wallet_id FROM attachment WHERE detached_at IS NULL
UNION ALL SELECT wallet_id FROM companion WHERE detached_at IS NULL)"""
# How many these are, as a value: counted in the indexes of those alone.
COUNT_HELD = """(
(SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL)
+ (SELECT COUNT(*) FROM companion WHERE detached_at IS NULL))"""
# Whether wallet `w` is one of them, where few wallets are asked about.
IS_LEADING = """EXISTS (
SELECT 1 FROM attachment a WHERE a.wallet_id = w.id AND a.detached_at IS NULL)"""
IS_HELD = f"""({IS_LEADING} OR EXISTS (
SELECT 1 FROM companion c WHERE c.wallet_id = w.id AND c.detached_at IS NULL))"""
