"""How much of the possible input a run tries. `--full` tries everything."""

FULL = False


def examples(count):
    """How many examples to draw."""
    return count if FULL else max(5, count // 5)


def sample(values, count):
    """About `count` of the values, spread evenly; the first one is always among them."""
    values = list(values)
    return values if FULL else values[:: -(-len(values) // count)]
