"""Rows to JSON: the shapes of the interface. Amounts are decimal strings, times RFC 3339 in UTC; no float appears."""
from datetime import UTC, datetime

LAMPORTS_DECIMALS = 9


def show_time(ms):
    """UTC milliseconds as `2026-11-20T12:00:00.123Z`, whole seconds without the fraction; None stays None."""
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


def show_amount(raw, decimals):
    """An integer of smallest units as an exact decimal: show_amount(-1250000000, 9) == "-1.25"."""
    sign, digits = "-" if raw < 0 else "", str(abs(raw)).rjust(decimals + 1, "0")
    whole, fraction = digits[:len(digits) - decimals], digits[len(digits) - decimals:].rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def show_sol(lamports):
    return None if lamports is None else show_amount(lamports, LAMPORTS_DECIMALS)


def show_lamports(lamports):
    return None if lamports is None else str(lamports)
