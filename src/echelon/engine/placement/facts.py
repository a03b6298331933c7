"""Numbers for the names of clusters, and for every fact the numbers of the clusters that have it."""

import heapq
from collections.abc import Iterable
from typing import Any

from pyroaring import BitMap


class Names:
    """Numbers for names, as small as possible; one stays taken until everybody who acquired it has released it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def acquire(self, name: str) -> int:
        """Return the number of a name, and hold it."""
        number = self._ids.get(name)
        if number is None:
            if self._free:
                number = heapq.heappop(self._free)
                self._names[number] = name
            else:
                number = len(self._names)
                self._names.append(name)
                self._uses.append(0)
            self._ids[name] = number
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Let go of a number that was acquired."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._ids[self._names[number]]
            self._names[number] = ""
            heapq.heappush(self._free, number)

    @property
    def limit(self) -> int:
        """A number that is higher than all."""
        return len(self._names)

    def find(self, name: str) -> int | None:
        """Return the number of a name that somebody holds."""
        return self._ids.get(name)

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def of(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of several numbers."""
        names = self._names
        return [names[number] for number in numbers]


class Facts:
    """For every key, and for every key and value, the clusters that have it. Answers are not to be modified."""

    def __init__(self) -> None:
        self._having: dict[str, BitMap] = {}
        self._equal: dict[tuple[str, str], BitMap] = {}

    def having(self, key: str) -> BitMap:
        """Return the clusters that have a key, whatever its value."""
        return self._having.get(key) or BitMap()

    def equal(self, key: str, value: str) -> BitMap:
        """Return the clusters that have this value."""
        return self._equal.get((key, value)) or BitMap()

    def replace(self, number: int, before: dict[str, str], after: dict[str, str]) -> frozenset[str]:
        """Let one cluster have other facts; return the keys that changed."""
        if before == after:
            return frozenset()
        gone, come = before.items() - after.items(), after.items() - before.items()
        for fact in gone:
            discard(self._equal, fact, number)
            if fact[0] not in after:
                discard(self._having, fact[0], number)
        for fact in come:
            self._equal.setdefault(fact, BitMap()).add(number)
            self._having.setdefault(fact[0], BitMap()).add(number)
        return frozenset(key for key, _ in (*gone, *come))

    def has(self, number: int, facts: dict[str, str]) -> bool:
        """Tell whether these facts of a cluster are all known."""
        return all(number in self.equal(*fact) and number in self.having(fact[0]) for fact in facts.items())

    def __len__(self) -> int:
        """Return how many facts are known of all clusters together."""
        having, equal = (sum(map(len, index.values())) for index in (self._having, self._equal))
        return having if having == equal else -1


def discard(index: dict[Any, BitMap], key: object, number: int) -> None:
    """Take a number out of one of many bitmaps, of which none is kept when it is empty."""
    numbers = index.get(key)
    if numbers is not None:
        numbers.discard(number)
        if not numbers:
            del index[key]
