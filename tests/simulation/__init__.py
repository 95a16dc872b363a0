"""One seed: an instance of Candor lived through in one thread, on a clock that only the simulation
moves, over a chain, nodes, readers and a market that are all drawn from a number.

    tale.py        what happened on the chain, and what each wallet earned by it (the oracle)
    steps.py       what is done to the instance, drawn up front as data
    world.py       the instance and its surroundings, and how each step is carried out
    nodes.py       nodes that misbehave
    market.py      prices, and a trader
    clients.py     a bot, followers and a receiver of hooks, who outlive every process
    machinery.py   time, chance, processes and kills
    invariants.py  what must hold after every step, and what once all faults have ended
    unmended.py    faults that were mended, made again
    play.py        run a seed; find the shortest prefix, and the fewest steps, that fail

Not in it, because they are threads and sockets: streams that are held open over HTTP (clients.py
reads what they send, event by event) and the WebSocket of the bell (world.py rings it instead).
tests/web/test_stream.py and tests/observing/test_listening.py have those.
"""
