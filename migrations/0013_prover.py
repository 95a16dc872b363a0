"""What a bot has proven stays with it: who proved a wallet that another now claims, and since when
trades are the claim's.
"""

from peewee import BigIntegerField, ForeignKeyField, Model


def up(migrator, db):
    class Bot(Model):
        class Meta:
            database = db
            table_name = "bot"

    migrator.migrate(
        migrator.add_column("wallet", "prover_id", ForeignKeyField(Bot, field=Bot.id, null=True)),
        migrator.add_column("wallet", "bot_since", BigIntegerField(null=True)),
    )
    # The latest proof of each wallet, where it is another bot's than the one that has it now.
    db.execute_sql("""
        UPDATE wallet SET prover_id = (
            SELECT a.bot_id FROM attachment a WHERE a.wallet_id = wallet.id
                AND a.ownership = 'proven'
            ORDER BY a.id DESC LIMIT 1)""")
    db.execute_sql("UPDATE wallet SET prover_id = NULL WHERE prover_id = bot_id")
    db.execute_sql("""
        UPDATE wallet SET bot_since = (
            SELECT MIN(a.attached_at) FROM attachment a
            WHERE a.wallet_id = wallet.id AND a.bot_id = wallet.bot_id AND a.id > (
                SELECT MAX(p.id) FROM attachment p
                WHERE p.wallet_id = wallet.id AND p.ownership = 'proven'))
        WHERE prover_id IS NOT NULL""")
