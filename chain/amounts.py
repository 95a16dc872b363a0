"""Exact decimal text for integer amounts. No floats, no rounding."""


def exact(raw: int, decimals: int) -> str:
    """`exact(-1250000000, 9)` is "-1.25"; `exact(5, 0)` is "5"."""
    digits = str(abs(raw)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return ("-" if raw < 0 else "") + whole + ("." + fraction if fraction else "")


def sol(lamports: int) -> str:
    return exact(lamports, 9)


def show_lamports(lamports: int | None) -> str | None:
    """Return lamports as text, which JSON parsers don't round."""
    return None if lamports is None else str(lamports)


def show_fixed(raw: int | None, decimals: int) -> str | None:
    """`show_fixed(-410, 2)` is "-4.10"."""
    if raw is None:
        return None
    digits = str(abs(raw)).rjust(decimals + 1, "0")
    return f"{'-' if raw < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"
