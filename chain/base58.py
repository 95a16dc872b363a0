"""Strict base58 in Bitcoin's alphabet, as Solana writes addresses, signatures and data."""

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
DIGITS = {letter: digit for digit, letter in enumerate(ALPHABET)}


def b58encode(raw: bytes) -> str:
    """Each leading zero byte is a leading `1`."""
    number, letters = int.from_bytes(raw, "big"), []
    while number:
        number, digit = divmod(number, 58)
        letters.append(ALPHABET[digit])
    zeros = len(raw) - len(raw.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(letters))


def b58decode(text: str) -> bytes:
    """ValueError if it is not base58."""
    number = 0
    try:
        for letter in text:
            number = number * 58 + DIGITS[letter]
    except KeyError:
        raise ValueError("a character that base58 does not have") from None
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def is_base58(text: object, size: int) -> bool:
    """Is this base58 of exactly `size` bytes?"""
    # A byte becomes one letter (a leading zero) to 1.366 letters; decoding anything longer would be
    # wasted.
    if not isinstance(text, str) or not size <= len(text) <= size * 11 // 8:
        return False
    try:
        return len(b58decode(text)) == size
    except ValueError:
        return False
