"""Strict base58 with Bitcoin's alphabet, which Solana uses for addresses, signatures and data."""

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
DIGITS = {letter: digit for digit, letter in enumerate(ALPHABET)}


def b58encode(raw: bytes) -> str:
    """Encode bytes. Each leading zero byte becomes a leading `1`."""
    number, letters = int.from_bytes(raw, "big"), []
    while number:
        number, digit = divmod(number, 58)
        letters.append(ALPHABET[digit])
    zeros = len(raw) - len(raw.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(letters))


def b58decode(text: str) -> bytes:
    """Decode base58. Raises ValueError for other characters."""
    number = 0
    try:
        for letter in text:
            number = number * 58 + DIGITS[letter]
    except KeyError:
        raise ValueError("not a base58 character") from None
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def is_base58(text: object, size: int) -> bool:
    # A byte needs between 1 letter (a leading zero) and 1.366 letters. Don't decode anything
    # longer.
    if not isinstance(text, str) or not size <= len(text) <= size * 11 // 8:
        return False
    try:
        return len(b58decode(text)) == size
    except ValueError:
        return False
