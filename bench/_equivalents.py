"""Mutants that behave exactly like the source, each with its reason."""

# mutmut's changes to the last argument of a zip.
STRICT = (", strict=True", ", strict=False", ", strict=None", ", ")


def _unchecked(line, why):
    """Mutants of a line that zips equally long values, with or without strict."""
    asked = next(one for one in STRICT if one in line)
    return {(line, line.replace(asked, other)): why for other in STRICT if other != asked}


# {path: {(original lines, mutated lines): why they are equivalent}}
EQUIVALENTS = {
    "chain/amounts.py": {
        (
            "whole, fraction = digits[: len(digits) - decimals], "
            'digits[len(digits) - decimals :].rstrip("0")',
            "whole, fraction = digits[: len(digits) - decimals], "
            'digits[len(digits) - decimals :].rstrip("XX0XX")',
        ): "digits end in no X",
    },
    "chain/rpc.py": {
        **_unchecked(
            "for pair, account in zip(owned, accounts, strict=False)",
            "an answer of another length was refused",
        ),
        **_unchecked(
            "mint: decimals for mint, decimals in zip(mints, read, strict=False) if decimals is"
            " not None",
            "an answer of another length was refused",
        ),
        (
            "while chunk := raw.read(65536, decode_content=True):",
            "while chunk := raw.read(65536, ):",
        ): "what a request asks for by default",
        (
            "while chunk := raw.read(65536, decode_content=True):",
            "while chunk := raw.read(65537, decode_content=True):",
        ): "a part is joined to the next",
        ("assert_same_host=False,", "assert_same_host=None,"): "is asked whether it is true",
    },
    "chain/addresses.py": {
        (
            "if not isinstance(text, str) or not size <= len(text) <= size * 11 // 8:",
            "if not isinstance(text, str) or not size <= len(text) <= size * 12 // 8:",
        ): "what is longer has more bytes",
    },
    "chain/ledger/coverage.py": {
        (
            "if len(group) > 1 and any(e.tx_index is None for e in group):",
            "if len(group) >= 1 and any(e.tx_index is None for e in group):",
        ): "one alone has one order",
        (
            "return {b.address: Seen(entry.slot, b.mint, b.after, b.lamports_after)"
            " for b in entry.balances}",
            "return {b.address: Seen(None, b.mint, b.after, b.lamports_after)"
            " for b in entry.balances}",
        ): "whether balances join is asked of mints, amounts and lamports",
        ("return orders[:2]", "return orders[:3]"): "asked is whether there is one, or more",
    },
    "chain/ledger/inventory.py": {
        (
            "lots, slices, missing = self.lots.get(mint, []), [], amount",
            "lots, slices, missing = self.lots.get(mint, None), [], amount",
        ): "no lots are as empty as none",
        **_unchecked(
            "carried = list(zip(groups, share(spent, sizes), strict=True))",
            "there is a share of each group",
        ),
        **_unchecked(
            "for (group, part), got in zip(carried, share(amount, sizes), strict=True):",
            "there is a share of each group",
        ),
    },
    "chain/reading/entries.py": {
        (
            'return json.dumps(self[len(OF_THE_ROW) : -1], separators=(",", ":"))',
            'return json.dumps(self[len(OF_THE_ROW) : -1], separators=(",", "XX:XX"))',
        ): "an entry has no objects",
        (
            'if kind.kind not in ("buy", "sell") or kind.flows is None or kind.mint is None:',
            'if kind.kind not in ("buy", "sell") or kind.flows is None and kind.mint is None:',
        ): "a purchase or sale has both",
    },
    "chain/reading/pools.py": {
        **_unchecked("for sign, side in zip((-1, 1), sides, strict=True)", "both are pairs"),
        **{
            ("if len(stored) < 2:", other): "a reading has 13 fields"
            for other in ("if len(stored) <= 2:", "if len(stored) < 3:")
        },
    },
    "chain/reading/receipts.py": {
        **_unchecked(
            '"accounts": list(zip(receipt.keys, receipt.before, receipt.after, strict=True)),',
            "a receipt of unequal lengths was refused",
        ),
        **_unchecked(
            "for side, lamports in zip(sides, receipt.lamports(address), strict=False):",
            "both are pairs",
        ),
    },
    "chain/reading/programs.py": {
        **{
            (
                'with open(FOLDER / name, encoding="utf-8", newline="") as file:',
                f'with open(FOLDER / name, {other}newline="") as file:',
            ): "the tables are ASCII"
            for other in ("", "encoding=None, ", 'encoding="UTF-8", ')
        },
        (
            'with open(FOLDER / name, encoding="utf-8", newline="") as file:',
            'with open(FOLDER / name, encoding="utf-8", newline=None) as file:',
        ): "the tables' lines end in a line feed",
        (
            'return self.names.get(program, "(unknown program)")',
            'return self.names.get(program, "XX(unknown program)XX")',
        ): "shown are known ones, and no other is an order book",
    },
    "chain/reading/flows.py": {
        **_unchecked(
            "told = zip(receipt.tokens[address], receipt.lamports(address), mine, strict=True)",
            "all are pairs",
        ),
        (
            "lost = {a: -change for a, change in self.unshown.items() if change < 0}",
            "lost = {a: -change for a, change in self.unshown.items() if change < 1}",
        ): "who lost nothing adds nothing to a sum",
        (
            "if self.unshown_in <= 0 or self.whole:",
            "if self.unshown_in < 0 or self.whole:",
        ): "of nothing there is nothing to explain",
        (
            "return [placed for top in receipt.instructions for placed in walk(top, None, False)]",
            "return [placed for top in receipt.instructions for placed in walk(top, None, None)]",
        ): "is asked whether it is true",
        (
            'return split_trade(flows, risen, "", explain_feeding=False)',
            "return split_trade(flows, risen, None, explain_feeding=False)",
        ): "is asked whether it is something",
        (
            "risen = [row for row in venue_tokens(flows) if row[1] > 0]",
            "risen = [row for row in venue_tokens(flows) if row[1] >= 0]",
        ): "no row is of nothing",
    },
    "chain/ledger/totals.py": {
        (
            "if happened_at is None or happened_at <= self.now_ms:",
            "if happened_at is None or happened_at < self.now_ms:",
        ): "at the same moment no span begins or ends again",
        **{
            ("if seconds < 100:", other): "a hundred is round"
            for other in ("if seconds <= 100:", "if seconds < 101:")
        },
        **_unchecked(
            "return Sums(*map(sum, zip(*listed, strict=True))) if listed else NOTHING",
            "all are Sums",
        ),
    },
    "chain/reading/kinds.py": {
        (
            "gave = any(change < 0 for _, change, _ in effect.tokens) or (",
            "gave = any(change <= 0 for _, change, _ in effect.tokens) or (",
        ): "no change is of nothing",
    },
    "chain/ledger/sales.py": _unchecked(
        "for (_, quantity, spent), part in zip(booked.lots, shares, strict=True):",
        "there is a share of each lot",
    ),
    "chain/stored/store.py": {
        **{
            (f'"{name}": {value},', f'"{name.upper()}": {value},'): "SQL knows no case"
            for name, value in (
                ("last_trade_at", "last and last[0] and last[0] * 1000"),
                ("observed_to", "wallet.observed_to"),
                ("forward_realized", "ledger.find_forward_realized()"),
            )
        },
        (
            'values |= {"coverage": to_json(told), "polled_at": wallet.polled_at}',
            'values |= {"coverage": to_json(told), "POLLED_AT": wallet.polled_at}',
        ): "SQL knows no case",
    },
    "chain/stored/trades.py": _unchecked(
        "row = dict(zip(DIGESTED, values, strict=True))", "the columns are what was asked for"
    ),
    "accounts/api_keys.py": {
        (".switch(Key)", ".switch(None)"): "the query is of keys",
    },
    "accounts/keys.py": {
        (
            "text = PREFIXES[scope] + _base62(int.from_bytes(secrets.token_bytes(32), "
            '"big"), SECRET_WIDTH)',
            "text = PREFIXES[scope] + _base62(int.from_bytes(secrets.token_bytes(None), "
            '"big"), SECRET_WIDTH)',
        ): "32 bytes are what it makes by default",
        (
            "text = PREFIXES[scope] + _base62(int.from_bytes(secrets.token_bytes(32), "
            '"big"), SECRET_WIDTH)',
            "text = PREFIXES[scope] + _base62(int.from_bytes(secrets.token_bytes(32), ), "
            "SECRET_WIDTH)",
        ): "the first byte leads by default",
    },
    "accounts/owners.py": {
        (
            'letters = base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=")',
            'letters = base64.b32encode(secrets.token_bytes(16)).decode().rstrip("XX=XX")',
        ): "the last letter stands for three bits and is no X",
    },
    "accounts/fields.py": {
        ("raise ValueError(name)", "raise ValueError(None)"): "is caught, and says nothing more",
    },
    "accounts/wallets.py": {
        ('length = struct.pack("<H", len(text))', 'length = struct.pack("<h", len(text))'): (
            "no text to sign has 32,768 letters"
        ),
    },
    "paper/player.py": {
        ("self.mint: str | None = None", 'self.mint: str | None = ""'): (
            "whoever isolates says so first"
        ),
        (
            "return [trader for trader in traders if not self.has(trader.id)] if self.found"
            " else traders",
            "return [trader for trader in traders if not self.has(trader.id)] if (self.found)"
            " or True else traders",
        ): "where nothing was found, nobody has a fault",
    },
    "paper/fills.py": {
        (
            'found = quote("sell", raw, snapshot, terms, seen, flow)',
            'found = quote("SELL", raw, snapshot, terms, seen, flow)',
        ): "what is no purchase is a sale",
        (
            'found = quote("sell", raw, snapshot, terms, seen, flow)',
            'found = quote("XXsellXX", raw, snapshot, terms, seen, flow)',
        ): "what is no purchase is a sale",
        (
            'paid = found.brings("sell")',
            "paid = found.brings(None)",
        ): "what is no purchase is a sale",
        (
            "if raw <= 0 or not snapshot.price:",
            "if raw < 0 or not snapshot.price:",
        ): "nobody quotes a sale of nothing",
        (
            'return VENUES.get(name or "", OTHER_VENUE)',
            'return VENUES.get(name or "XXXX", OTHER_VENUE)',
        ): "neither is the name of a venue",
        (
            "return left if flow > 0 else -left",
            "return left if flow >= 0 else -left",
        ): "of no flow nothing is left",
        (
            "if last is None or last.id == snapshot.id or not memory.flow:",
            "if last is None or last.id == snapshot.id and not memory.flow:",
        ): "on the same snapshot nothing has passed",
        (
            "passed = max(0, snapshot.at - last.at + EARLY_MS) // MINUTE_MS * MINUTE_MS",
            "passed = max(1, snapshot.at - last.at + EARLY_MS) // MINUTE_MS * MINUTE_MS",
        ): "a millisecond is no minute",
        (
            "if not CURVE_KEPT_RAW * 99 // 100 <= tokens <= CURVE // CURVE_VIRTUAL_SOL"
            " * 101 // 100:",
            "if not CURVE_KEPT_RAW * 99 / 100 <= tokens <= CURVE // CURVE_VIRTUAL_SOL"
            " * 101 // 100:",
        ): "a hundredth of it is whole",
    },
    "paper/rules.py": {
        (
            "return tail * ACCOUNTS * LOOKS <= 1 << of",
            "return tail * ACCOUNTS * LOOKS < 1 << of",
        ): "605 divides no power of two",
    },
    "paper/market.py": {
        (
            "top, bottom = number.as_integer_ratio() if number.adjusted() > -60 else (0, 1)",
            "top, bottom = number.as_integer_ratio() if number.adjusted() >= -60 else (0, 1)",
        ): "so little is nothing at any scale",
    },
    "paper/measured.py": {
        (
            "if last is None or last.at // DAY_MS < now // DAY_MS:",
            "if last is None or last.at / DAY_MS < now // DAY_MS:",
        ): "a moment is before a midnight where its day is",
    },
    "paper/own_child.py": {
        (
            "kind: type[Strategy] | None = None",
            'kind: type[Strategy] | None = ""',
        ): "whatever is nothing is loaded at the first line",
    },
    "paper/store.py": {
        (
            "EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()",
            "EngineState.update(entry=last_entry).where(None).execute()",
        ): "there is one row",
    },
}
