"""Which connection is closed for another one."""

import dataclasses

import pytest

from tfx_gnn.serving.server.open_connections import OpenConnections


@dataclasses.dataclass(eq=False)
class Ended:
    """A connection that notes that it was ended."""

    address: str = "a"
    is_ended: bool = False

    def make_room(self):
        self.is_ended = True


def opened(others, count, address="a"):
    made = [Ended(address) for _ in range(count)]
    assert all(others.add(one) for one in made)
    return made


def ended(connections):
    return [number for number, one in enumerate(connections) if one.is_ended]


@pytest.mark.parametrize("limits", [(3, 10), (10, 3)])
def test_connection_that_has_waited_longest_is_closed(limits):
    others = OpenConnections(max_connections=limits[0], max_client_connections=limits[1])
    made = opened(others, 3)
    others.work(made[0])
    others.wait(made[1])  # After the last one.

    made += opened(others, 1)

    assert ended(made) == [2]


def test_connection_that_works_is_not_closed():
    others = OpenConnections(max_connections=2, max_client_connections=2)
    made = opened(others, 2)
    for one in made:
        others.work(one)

    assert not others.add(Ended())
    assert ended(made) == []
    others.wait(made[1])
    assert others.add(Ended())
    assert ended(made) == [1]


def test_many_connections_of_one_client_take_no_room_from_others():
    others = OpenConnections(max_connections=4, max_client_connections=2)
    many, few = opened(others, 2, "many"), opened(others, 1, "few")

    many += opened(others, 5, "many")

    assert ended(many) == [0, 1, 2, 3, 4]
    assert ended(few) == []
    few += opened(others, 1, "few")
    assert opened(others, 1, "third")
    assert ended(few) == [0]  # Of all, it has waited longest.


def test_connections_that_are_gone_leave_room():
    others = OpenConnections(max_connections=1, max_client_connections=1)

    for number in range(3):
        (one,) = opened(others, 1, f"{number}")
        others.work(one)
        others.remove(one)

    assert others._num == 0
    assert not others._num_of
    assert not others._waiting
    assert not others._waiting_of
