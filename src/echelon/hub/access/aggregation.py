"""Aggregated ClusterRoles: their rules are those of all roles that carry a label, so that an API brings its own rights.

What is collected can be an aggregated role itself (`admin` collects `edit`), so this goes on until nothing changes. Two
roles that collect each other settle after at most one round a role.
"""

from collections.abc import Iterable, Mapping

import msgspec

from echelon.api.base import JSONObject

_canonical = msgspec.json.Encoder(order="sorted").encode


def aggregate(roles: Iterable[JSONObject]) -> dict[str, list[JSONObject]]:
    """Return the new rules of every aggregated ClusterRole whose rules are not what they should be, by name."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    rules: dict[str, list[JSONObject]] = {name: role.get("rules") or [] for name, role in by_name.items()}
    collecting = sorted(name for name, role in by_name.items() if role.get("aggregationRule") is not None)
    sources = {name: _sources(by_name, name) for name in collecting}
    for _ in range(len(collecting) + 1):
        before = {name: rules[name] for name in collecting}
        for name in collecting:
            rules[name] = _union(rules[source] for source in sources[name])
        if all(rules[name] == before[name] for name in collecting):
            break
    return {name: rules[name] for name in collecting if rules[name] != (by_name[name].get("rules") or [])}


def collects(collecting: JSONObject, role: JSONObject) -> bool:
    """Tell whether an aggregated ClusterRole has the rules of another one."""
    labels = role["metadata"].get("labels") or {}
    return any(_selects(selector, labels) for selector in _selectors(collecting))


def _selectors(role: JSONObject) -> list[JSONObject]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []


def _sources(roles: Mapping[str, JSONObject], name: str) -> list[str]:
    found: list[str] = []
    for selector in _selectors(roles[name]):
        for candidate in sorted(roles):
            labels = roles[candidate]["metadata"].get("labels") or {}
            if candidate != name and _selects(selector, labels) and candidate not in found:
                found.append(candidate)
    return found


def _union(parts: Iterable[list[JSONObject]]) -> list[JSONObject]:
    union: dict[bytes, JSONObject] = {}
    for part in parts:
        for rule in part:
            union.setdefault(_canonical(rule), rule)
    return list(union.values())


def _selects(selector: JSONObject, labels: Mapping[str, str]) -> bool:
    wanted: JSONObject = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _holds(term: JSONObject, labels: Mapping[str, str]) -> bool:
    key, values = term.get("key"), term.get("values") or []
    match term.get("operator"):
        case "In":
            return labels.get(key or "") in values
        case "NotIn":
            return labels.get(key or "") not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            # An unknown operator selects nothing: rights must not come from something that nobody understood.
            return False
