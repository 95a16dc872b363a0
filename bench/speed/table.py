"""The table's rows, and how a row's ratio is computed: alternating rounds, median."""

import statistics

from bench._clients import ask

ROUNDS, CLIENTS = 3, 16


def tell(what, measured, ratio=None, least=None, most=None):
    """Print a row. Return [what] if it misses the target, else []."""
    target = (
        f"at least {least}" if least is not None else f"at most {most}" if most is not None else ""
    )
    print(
        f"| {what} | {measured} | {'' if ratio is None else f'{ratio:.2f}'} | {target} |",
        flush=True,
    )
    return (
        [what]
        if ratio is not None
        and ((least is not None and ratio < least) or (most is not None and ratio > most))
        else []
    )


def race(measures, seconds):
    """Return {name: [Heard, ...]} of `measures`, {name: (port, requests of a client)},
    alternating.
    """
    heard = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, (port, make) in measures.items():
            heard[name].append(ask(port, make, CLIENTS, seconds))
    wrong = {name: sum(one.wrong for one in rounds) for name, rounds in heard.items()}
    assert not any(wrong.values()), wrong
    return heard


def compare(heard, name, other):
    """Return the median ratio of their rates."""
    return statistics.median(
        one.rate / two.rate for one, two in zip(heard[name], heard[other], strict=False)
    )


def show(rounds):
    rate, p50, p99 = (
        statistics.median(values)
        for values in zip(
            *((one.rate, one.percentile(50), one.percentile(99)) for one in rounds), strict=False
        )
    )
    return f"{rate:,.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
