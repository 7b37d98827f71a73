"""The connections of a server: how many there may be, and which is closed for another one."""

from __future__ import annotations

import collections
from typing import Protocol


class Connection(Protocol):
    """A connection that can be closed."""

    @property
    def address(self) -> str:
        """Address of the client, without its port."""
        ...

    def make_room(self) -> None:
        """Closes the connection for another one."""
        ...


class OpenConnections:
    """Connections in the order in which they have waited for their clients.

    A connection waits for its client until a whole request is there, and from its response on. Where there are too
    many, of one address or of all, the one that has waited for the longest time is closed, so that clients which send
    nothing, or slowly, keep nobody out. Requests that are being answered are not closed.

    Args:
        max_connections: largest number of all.
        max_client_connections: largest number from one address.
    """

    def __init__(self, *, max_connections: int, max_client_connections: int) -> None:
        self._max, self._max_of_client = max_connections, max_client_connections
        self._num_of: collections.Counter[str] = collections.Counter()
        self._num = 0
        # Dicts, because they keep an order and lose an item in constant time.
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = collections.defaultdict(dict)

    def add(self, connection: Connection) -> bool:
        """Takes a new connection, which waits for its client; False if there is no room."""
        address = connection.address
        if self._num_of[address] >= self._max_of_client:
            waiting = self._waiting_of[address]
        elif self._num >= self._max:
            waiting = self._waiting
        else:
            waiting = None
        if waiting is not None:
            longest = next(iter(waiting), None)
            if longest is None:
                return False
            self.remove(longest)
            longest.make_room()
        self._num += 1
        self._num_of[address] += 1
        self.wait(connection)
        return True

    def wait(self, connection: Connection) -> None:
        """Notes that a connection waits for its client from now on."""
        of_client = self._waiting_of[connection.address]
        self._waiting.pop(connection, None)
        of_client.pop(connection, None)
        self._waiting[connection] = of_client[connection] = None

    def work(self, connection: Connection) -> None:
        """Notes that a connection does not wait for its client."""
        if self._waiting.pop(connection, self) is None:
            del self._waiting_of[connection.address][connection]

    def remove(self, connection: Connection) -> None:
        """Forgets a connection that `add` took."""
        address = connection.address
        self.work(connection)
        self._num -= 1
        self._num_of[address] -= 1
        if not self._num_of[address]:
            del self._num_of[address]
            self._waiting_of.pop(address, None)
