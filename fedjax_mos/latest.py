"""The latest things by key, and no more of them than memory allows."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """At most `most` things; the least recently used one goes.

    For compiled programs: each may hold thousands of memory maps, of which a process
    may have some 65,000.

    >>> kept = Latest(most=2)
    >>> [kept.get(key, lambda: key.upper()) for key in "abca"]
    ['A', 'B', 'C', 'A']
    >>> "b" in kept, "c" in kept
    (False, True)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.things: dict[Hashable, T] = {}  # the latest is the last
        self.lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The thing of this key, made if it is not kept; threads get the same one."""
        with self.lock:
            thing = self.things.pop(key) if key in self.things else make()
            self.things[key] = thing
            if len(self.things) > self.most:
                del self.things[next(iter(self.things))]
            return thing

    def __contains__(self, key: Hashable) -> bool:
        return key in self.things
