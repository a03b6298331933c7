"""What of some rules nobody holds, found without multiplying the rules out.

A rule of a few kilobytes lists a hundred groups, resources and verbs each, and stands for a million single rights. So
values are sorted into classes first: two resources that the same held rules mention are covered by the same rules,
whatever the verb. What is multiplied is classes, and of those there are never more than the held rules have words for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from echelon.api.base import JSONObject
from echelon.hub.access.rbac import ALL, Rule, url_covers

Rules = int  # a set of held rules, one bit each
Classes = Mapping[Rules, Sequence[str]]  # values by the held rules that have them


def uncovered(held: Sequence[Rule], wanted: Iterable[Rule]) -> Iterator[JSONObject]:
    """Yield the smallest parts of the wanted rules that no single held rule covers; there may be very many."""
    index = _Held(held)
    for rule in wanted:
        wire = rule.wire
        verbs = _classes(index.verbs, wire.get("verbs") or ())
        yield from _rights(index, wire, verbs)
        for url in dict.fromkeys(rule.urls):
            for rules, same in verbs.items():
                if not rules & index.covering_url(url):
                    yield from ({"nonResourceURLs": [url], "verbs": [verb]} for verb in same)


def _rights(index: "_Held", wire: JSONObject, verbs: Classes) -> Iterator[JSONObject]:
    groups = _classes(index.groups, wire.get("apiGroups") or ())
    resources = _classes(index.resources, wire.get("resources") or ())
    names: list[str] = wire.get("resourceNames") or []
    # Rules without names cover every name; rules with names never cover a part without one.
    named = {rules | index.nameless: same for rules, same in _classes(index.names, names).items()}
    for group, resource, verb in product(groups, resources, verbs):
        rules = group & resource & verb
        lacking = [same for own, same in named.items() if not rules & own] if names else []
        if not names and rules & index.nameless:
            continue
        for triple in product(groups[group], resources[resource], verbs[verb]) if lacking or not names else ():
            part = {key: [value] for key, value in zip(("apiGroups", "resources", "verbs"), triple, strict=True)}
            yield from ({**part, "resourceNames": [name]} for same in lacking for name in same)
            if not names:
                yield part


@dataclass(frozen=True)
class _Words:
    """The words of held rules in one place of a rule, with the rules that have them."""

    rules: Mapping[str, Rules]
    all: Rules = 0  # rules that have every word

    @classmethod
    def of(cls, words: Iterable[Iterable[str]]) -> "_Words":
        rules: dict[str, Rules] = {}
        for number, each in enumerate(words):
            for word in each:
                rules[word] = rules.get(word, 0) | 1 << number
        return cls(rules, rules.get(ALL, 0))

    def having(self, value: str) -> Rules:
        """Return the rules that have a value."""
        return self.rules.get(value, 0) | self.all


class _Resources(_Words):
    """Resources, where `*/scale` is the scale of each."""

    def having(self, value: str) -> Rules:
        _, slash, subresource = value.partition("/")
        return super().having(value) | (self.rules.get(f"*/{subresource}", 0) if slash else 0)


class _Held:
    """Held rules by their words."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.verbs = _Words.of(rule.verbs for rule in rules)
        self.groups = _Words.of(rule.groups for rule in rules)
        self.resources = _Resources.of(rule.resources for rule in rules)
        named = _Words.of(rule.names for rule in rules)
        self.names = _Words(named.rules)  # a name is a name: there is none that stands for all
        self.nameless: Rules = sum(1 << number for number, rule in enumerate(rules) if not rule.names)

    @cached_property
    def _urls(self) -> Mapping[str, Rules]:
        return _Words.of(rule.urls for rule in self._rules).rules

    @cached_property
    def _open_urls(self) -> Sequence[tuple[str, Rules]]:
        return [(url, rules) for url, rules in self._urls.items() if url.endswith(ALL)]

    def covering_url(self, url: str) -> Rules:
        """Return the rules that have a URL. A rule that is limited to names is about objects, whatever else it has."""
        rules = self._urls.get(url, 0)
        for pattern, having in self._open_urls:
            if url_covers(pattern, url):
                rules |= having
        return rules & self.nameless


def _classes(words: _Words, values: Iterable[str]) -> Classes:
    classes: dict[Rules, list[str]] = {}
    for value in dict.fromkeys(values):
        classes.setdefault(words.having(value), []).append(value)
    return classes
