"""Which bot holds or held which wallets, as SQL: the one that leads and those beside it alike."""

# Every stay of a wallet with a bot, from when to when in ms (null: until now).
HOLDINGS = """(
SELECT bot_id, wallet_id, ownership, attached_at, detached_at FROM attachment
UNION ALL SELECT bot_id, wallet_id, 'proven', attached_at, detached_at FROM companion)"""
# The numbers of the wallets that bots hold now, each once.
HELD = """(
SELECT wallet_id FROM attachment WHERE detached_at IS NULL
UNION ALL SELECT wallet_id FROM companion WHERE detached_at IS NULL)"""
