"""Which request is served next: addresses take turns, and writers leave threads to readers."""

from types import SimpleNamespace

from web.server.worker import Queue


def request(address, name="", method="GET"):
    """A connection with a request with this method or, for None, with a continued response."""
    asked = method and SimpleNamespace(method=method)
    return SimpleNamespace(address=address, name=name, request=asked)


def take_all(queue):
    return list(iter(queue.take, None))


def test_one_address_leaves_a_quarter_of_the_threads_to_others():
    queue = Queue(8, is_proxied=False)
    for _ in range(20):
        queue.add(request("a"))
    assert len(take_all(queue)) == 6
    for address in "bcd":
        queue.add(request(address))
    assert [one.address for one in take_all(queue)] == ["b", "c"]


def test_behind_a_proxy_one_address_can_use_all_threads():
    queue = Queue(8, is_proxied=True)
    for _ in range(20):
        queue.add(request("proxy"))
    assert len(take_all(queue)) == 8


def test_addresses_take_turns_under_load():
    """With two threads, an address has one at a time."""
    queue = Queue(2, is_proxied=False)
    for number in range(100):
        queue.add(request("a", f"a{number}"))
    queue.add(request("b", "b0"))
    queue.add(request("b", "b1"))
    order = []
    while taken := take_all(queue):
        order += [one.name for one in taken]
        for one in taken:
            queue.give_back(one)
    assert order[:5] == ["a0", "b0", "a1", "b1", "a2"] and len(order) == 102


def test_writers_leave_half_of_the_threads_to_readers():
    queue = Queue(8, is_proxied=False)
    for number in range(20):
        queue.add(request(f"bot{number}", method="POST"))
    for number in range(20):
        queue.add(request(f"reader{number}"))
    taken = take_all(queue)
    assert [one.work for one in taken].count("write") == 4 and len(taken) == 8


def test_a_reader_does_not_wait_behind_its_own_addresss_writers():
    """Behind a proxy, all have one address."""
    queue = Queue(4, is_proxied=True)
    for _ in range(10):
        queue.add(request("proxy", method="POST"))
    queue.add(request("proxy", "reader"))
    assert "reader" in [one.name for one in take_all(queue)]


def test_a_finished_turn_makes_room_for_the_next():
    queue = Queue(2, is_proxied=False)
    first, second = request("a", method="POST"), request("b", method="POST")
    queue.add(first)
    queue.add(second)
    assert take_all(queue) == [first]
    queue.give_back(first)
    assert take_all(queue) == [second]


def test_long_responses_continue_one_at_a_time():
    queue = Queue(8, is_proxied=False)
    for number in range(4):
        queue.add(request(f"table{number}", method=None))
    assert len(take_all(queue)) == 1
    queue.add(request("reader"))
    assert [one.address for one in take_all(queue)] == ["reader"]
