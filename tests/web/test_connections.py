"""Which connection is given up when there are too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloister.web.connections import Connection, OpenConnections
from cloister.web.limits import ServiceLimits


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=80))
def test_counts_stay_within_limits_and_nobody_who_works_is_given_up(
    moves: list[tuple[int, bool, bool]],
) -> None:
    counted: list[int] = []
    limits = ServiceLimits(max_connections=7, max_connections_of_address=3)
    opened = OpenConnections(limits, counted.append)
    alive: list[Connection] = []

    def given_up(connection: Connection) -> None:
        assert connection.waiting_since is not None
        alive.remove(connection)

    for now, (address, works, ends) in enumerate(moves):
        before = list(alive)
        connection = opened.admit(str(address), now=float(now))
        if connection is None:
            crowd = [other for other in before if other.address == str(address)]
            full = crowd if len(crowd) == 3 else before
            assert all(other.waiting_since is None for other in full)
            continue
        connection.give_up = lambda connection=connection: given_up(connection)
        connection.waiting_since = None if works else float(now)
        alive.append(connection)
        if ends:
            opened.remove(alive.pop(0))
        assert len(opened) == len(alive) == counted[-1] <= 7
        assert all(sum(c.address == str(a) for c in alive) <= 3 for a in range(5))


def test_of_a_full_house_the_crowd_makes_room() -> None:
    opened = OpenConnections(ServiceLimits(max_connections=4, max_connections_of_address=3))
    given_up: list[str] = []
    for number, address in enumerate(("quiet", "loud", "loud", "loud")):
        connection = opened.admit(address, now=float(number))
        assert connection is not None
        connection.give_up = lambda name=f"{address} {number}": given_up.append(name)
    assert opened.admit("new", now=9.0) is not None
    assert given_up == ["loud 1"]
