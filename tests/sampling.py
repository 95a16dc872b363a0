"""How many examples a test draws. `--full` draws all of them."""

FULL = False


def examples(count):
    return count if FULL else max(5, count * 2 // 5)
