"""What an object would be if it had at least what a definition says.

Maps are merged key by key. Lists have no keys, so each item that is wanted is paired with one that is there: with one
that has all of it already, else with one of the same name. What finds no partner is added, and what nobody asks for is
left. The order of lists does not count, so the pairs must not depend on it: items are brought into an order of their
own first, and as many as possible find a partner that needs no change.

Pairs are looked for among items that have a rare value in common, an item that is there word for word is paired without
looking, and all of it has a limit (`effort`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from echelon.engine.configuration_policy.effort import Effort
from echelon.engine.configuration_policy.scalars import (
    Likeness,
    ScalarKey,
    is_scalar,
    is_zero,
    likeness,
    scalar_key,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Merged:
    """A value as it should be, and whether that is another one than there is."""

    value: Any
    differs: bool = False
    doubt: bool = False

    @property
    def changed(self) -> bool:
        """Whether the value is not simply the one that there is."""
        return self.differs or self.doubt


_BYTES_A_STEP = 1024  # to write so much down takes as long as a step
_DIGEST_BYTES = 32

_Trait: TypeAlias = tuple[tuple[str, ...], ScalarKey]


def merge(existing: Any, desired: Any, effort: Effort, depth: int = 0) -> Merged:
    """Merge what is desired into what exists, which is None where the field is missing."""
    effort.spend(depth)
    if isinstance(desired, dict):
        if existing is None:
            merged = _merge_maps({}, desired, effort, depth)
            return Merged(merged.value, merged.differs, doubt=not merged.differs)
        return _merge_maps(existing, desired, effort, depth) if isinstance(existing, dict) else Merged(desired, True)
    if isinstance(desired, list):
        if existing is None:
            return Merged(desired, bool(desired), not desired)
        return _merge_lists(existing, desired, effort, depth) if isinstance(existing, list) else Merged(desired, True)
    if isinstance(existing, dict) and desired is None:
        return Merged(existing)
    if isinstance(existing, dict | list):
        empty = is_zero(existing) and is_zero(desired)
        return Merged(existing if empty else desired, not empty)
    found = likeness(existing, desired)
    if found is Likeness.SAME:
        return Merged(existing)
    return Merged(desired, found is Likeness.OTHER, found is Likeness.DOUBTFUL)


def _merge_maps(existing: dict[str, Any], desired: dict[str, Any], effort: Effort, depth: int) -> Merged:
    value, differs, doubt = dict(existing), False, False
    for key, wanted in desired.items():
        inner = merge(existing.get(key), wanted, effort, depth + 1)
        if inner.changed:
            value[key] = inner.value
            differs, doubt = differs or inner.differs, doubt or inner.doubt
    return Merged(value, differs, doubt) if differs or doubt else Merged(existing)


def _merge_lists(existing: list[Any], desired: list[Any], effort: Effort, depth: int) -> Merged:
    effort.spend(depth, len(existing) + len(desired))
    pairing = _Pairing(existing, desired, effort, depth)
    pairing.pair_scalars()
    pairing.pair_parts()
    return pairing.merged()


class _Pairing:
    """The items of two lists, and which of them belong together."""

    def __init__(self, existing: list[Any], desired: list[Any], effort: Effort, depth: int) -> None:
        self._existing, self._desired = existing, desired
        self._effort, self._depth = effort, depth
        self._partner: dict[int, Merged] = {}  # by number of an existing item, what becomes of it
        self._paired: set[int] = set()  # numbers of desired items

    def merged(self) -> Merged:
        """Return the list with everything that was paired merged, and the rest added."""
        added = [item for number, item in enumerate(self._desired) if number not in self._paired]
        changed = {number: each for number, each in self._partner.items() if each.changed}
        if not added and not changed:
            return Merged(self._existing)
        kept = [changed[number].value if number in changed else item for number, item in enumerate(self._existing)]
        differs = bool(added) or any(each.differs for each in changed.values())
        return Merged(kept + added, differs, any(each.doubt for each in changed.values()))

    def pair_scalars(self) -> None:
        """Pair scalars that have the same text, and then those that mean the same."""
        ours = [number for number, item in enumerate(self._desired) if is_scalar(item)]
        theirs = [number for number, item in enumerate(self._existing) if is_scalar(item)] if ours else []
        for of, doubt in ((text_of, False), (scalar_key, True)):
            free: dict[Any, list[int]] = defaultdict(list)
            for number in reversed(theirs):
                free[of(self._existing[number])].append(number)
            for number in ours:
                if same := free.get(of(self._desired[number])):
                    self._pair(same.pop(), number, Merged(self._desired[number], doubt=doubt))
            theirs = [number for number in theirs if number not in self._partner]
            ours = [number for number in ours if number not in self._paired]
            if not theirs or not ours:
                return

    def pair_parts(self) -> None:
        """Pair maps and lists: those that are equal, those that need no change, those of the same name."""
        existing, desired = _in_order(self._existing, self._effort), _in_order(self._desired, self._effort)
        equal: dict[bytes, list[int]] = defaultdict(list)
        for form, number in reversed(existing):
            equal[form].append(number)
        for form, number in desired:
            if same := equal.get(form):
                self._pair(same.pop(), number, Merged(self._desired[number]))
        theirs = [number for _, number in existing if number not in self._partner]
        ours = [number for _, number in desired if number not in self._paired]
        if not theirs or not ours:
            return
        tried = self._pair_contained(theirs, ours)
        self._pair_named(theirs, ours, tried)

    def _pair_contained(self, theirs: Sequence[int], ours: Sequence[int]) -> dict[tuple[int, int], Merged]:
        """Pair as many as possible with an item that has all that is wanted; return all that was tried.

        Whoever comes first may move to another partner, but never loses having one. So who is left over depends on the
        order of `ours` alone.
        """
        candidates = _Candidates(self._existing, theirs, self._effort)
        tried: dict[tuple[int, int], Merged] = {}
        options: dict[int, list[int]] = {}
        for number in ours:
            fitting = list[tuple[bool, int, int]]()
            for other in candidates.of(self._desired[number]):
                found = merge(self._existing[other], self._desired[number], self._effort, self._depth + 1)
                tried[other, number] = found
                if not found.differs:
                    fitting.append((found.doubt, len(fitting), other))
            options[number] = [other for _, _, other in sorted(fitting)]
        owner = _match(ours, options, self._effort)
        for other, number in owner.items():
            self._pair(other, number, tried[other, number])
        return tried

    def _pair_named(self, theirs: Sequence[int], ours: Sequence[int], tried: dict[tuple[int, int], Merged]) -> None:
        free: dict[str, list[int]] = defaultdict(list)
        for number in reversed([number for number in theirs if number not in self._partner]):
            free[_name_of(self._existing[number])].append(number)
        for number in ours:
            name = _name_of(self._desired[number])
            if number in self._paired or not name or not free.get(name):
                continue
            other = free[name].pop()
            found = tried.get((other, number))
            if found is None:
                found = merge(self._existing[other], self._desired[number], self._effort, self._depth + 1)
            self._pair(other, number, found)

    def _pair(self, existing: int, desired: int, merged: Merged) -> None:
        self._partner[existing] = merged
        self._paired.add(desired)


def _in_order(items: list[Any], effort: Effort) -> Sequence[tuple[bytes, int]]:
    """Return maps and lists in an order that does not depend on where they stand, each with what tells it from others.

    A list inside of an item is compared with those of many others, and put in order for the first of them.
    """
    known = effort.orders.get(id(items))
    if known is not None:
        return known[1]
    forms = list[tuple[bytes, int]]()
    for number, item in enumerate(items):
        if not is_scalar(item):
            form = msgspec.json.encode(item, order="sorted")
            effort.spend(0, len(form) // _BYTES_A_STEP)
            forms.append((form, number))
    forms.sort()
    order = [(form if len(form) <= _DIGEST_BYTES else _digest(form), number) for form, number in forms]
    effort.orders[id(items)] = items, order
    return order


def _digest(form: bytes) -> bytes:
    return blake2b(form, digest_size=_DIGEST_BYTES).digest()


def _match(ours: Sequence[int], options: dict[int, list[int]], effort: Effort) -> dict[int, int]:
    """Give each of ours one of its options, as many as possible; return who has which, by option.

    Each one looks for a free option along a path on which others can move on, the shortest first.
    """
    owner: dict[int, int] = {}
    having: dict[int, int] = {}
    for start in ours:
        wanted_by: dict[int, int] = {}
        free = _free_option(start, options, owner, wanted_by, effort)
        while free is not None:
            number = wanted_by[free]
            left = having.get(number)
            owner[free], having[number] = number, free
            free = left
    return owner


def _free_option(
    start: int, options: dict[int, list[int]], owner: dict[int, int], wanted_by: dict[int, int], effort: Effort
) -> int | None:
    """Return a free option that somebody can take so that `start` gets one, and note who wants what on the way."""
    waiting = [start]
    while waiting:
        following: list[int] = []
        for number in waiting:
            for option in options[number]:
                effort.spend(0)
                if option in wanted_by:
                    continue
                wanted_by[option] = number
                if option not in owner:
                    return option
                following.append(owner[option])
        waiting = following
    return None


class _Candidates:
    """Finds who can have all that an item has: one of its name, else only who has its rarest value."""

    def __init__(self, items: list[Any], numbers: Sequence[int], effort: Effort) -> None:
        self._items, self._numbers, self._effort = items, numbers, effort
        self._by_trait: dict[_Trait, list[int]] = defaultdict(list)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            self._by_name[_name_of(items[number])].append(number)

    def of(self, item: Any) -> Sequence[int]:
        """Return the numbers of those who may have all that an item has."""
        if name := _name_of(item):
            return self._by_name.get(name, ())
        if not self._by_trait:
            self._note_traits()
        fewest = self._numbers
        for trait in _traits(item):
            self._effort.spend(0)
            having = self._by_trait.get(trait, ())
            if len(having) < len(fewest):
                fewest = having
        return fewest

    def _note_traits(self) -> None:
        for number in self._numbers:
            for trait in set(_traits(self._items[number], zero=True)):
                self._effort.spend(0)
                self._by_trait[trait].append(number)


def _traits(item: Any, *, zero: bool = False, path: tuple[str, ...] = ()) -> Iterator[_Trait]:
    """Return the values of a map by which it can be told from others; zero values, which may be missing, if asked."""
    if not isinstance(item, dict) or len(path) > 3:
        return
    for key, value in item.items():
        if isinstance(value, dict):
            yield from _traits(value, zero=zero, path=(*path, key))
        elif is_scalar(value) and (zero or not is_zero(value)):
            yield (*path, key), scalar_key(value)


def _name_of(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""
