"""Mutants that nobody could tell from the source, each with its reason."""

# {path: {(what the lines said, what the mutant says): why it is the same}}
EQUIVALENTS = {
    "chain/coverage.py": {
        (
            "if len(group) > 1 and any(e.tx_index is None for e in group):",
            "if len(group) >= 1 and any(e.tx_index is None for e in group):",
        ): "one alone has one order",
        (
            "return {b.address: Seen(entry.slot, b.mint, b.after, b.lamports_after)"
            " for b in entry.balances}",
            "return {b.address: Seen(entry.slot, None, b.after, b.lamports_after)"
            " for b in entry.balances}",
        ): "whether balances join is asked of amounts and lamports",
        ("return orders[:2]", "return orders[:3]"): "asked is whether there is one, or more",
    },
    "chain/inventory.py": {
        (
            "lots, slices, missing = self.lots.get(mint, []), [], amount",
            "lots, slices, missing = self.lots.get(mint, None), [], amount",
        ): "no lots are as empty as none",
        (
            "for group, got, part in zip(groups, share(amount, sizes), share(spent, sizes),"
            " strict=True):",
            "for group, got, part in zip(groups, share(amount, sizes), share(spent, sizes), ):",
        ): "all three are as long as the groups",
    },
}
