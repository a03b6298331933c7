"""Hostile requests by seed: bodies, patches, selectors, expressions and the parameters of watches.

The small ones are wrong in odd ways. The large ones repeat something that is cheap to send and might be dear to read.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.hub.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

YAML = "application/yaml"
JSON = "application/json"
NAMESPACE = "/api/v1/namespaces/fuzzed"
MAPS = f"{NAMESPACE}/configmaps"
PODS = f"{NAMESPACE}/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/fuzzed/roles"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
LARGEST_BODY = 1 << 20
LONGEST_SELECTOR = 20_000


@dataclass(frozen=True)
class Hostile:
    """A request, and what it is about, for those who read of a failure."""

    what: str
    method: str
    path: str
    body: bytes | None = None
    media: str = JSON
    query: dict[str, str] = field(default_factory=dict)
    accept: str = ""

    @property
    def size(self) -> int:
        """How many bytes were sent."""
        return len(self.body or b"") + sum(map(len, self.query.values()))


NUMBERS = ["-1", "0", "1", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "1e9", "NaN", "٣", ""]
WORDS = [
    "",
    "a",
    "\x00",
    "\u202e",
    "\U0001f600",
    "x" * 300,
    "..",
    "/",
    "%",
    "true",
    "null",
    "-",
    "*",
    "\\",
    '"',
    "{}",
]
SCALARS: list[Any] = [None, True, False, 0, -1, 2**63, 2**70, -(2**63) - 1, 1e308, 0.1, *WORDS, [], {}, [[]], [{}]]
PARAMETERS = [
    "limit", "timeoutSeconds", "resourceVersion", "continue", "resourceVersionMatch", "sendInitialEvents",
    "allowWatchBookmarks", "watch", "pretty", "dryRun", "fieldValidation", "fieldManager", "force",
    "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "includeObject", "labelSelector", "fieldSelector",
]  # fmt: skip
ACCEPTS = [
    "", "*/*", YAML, "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "text/html", ";,;", "application/json;stream=watch",
]  # fmt: skip
PATCHES = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
EXPRESSIONS = [
    "self.{f}", "self.all(x, x.{f} == x.{f})", "self.map(x, self.map(y, self.map(z, [x, y, z])))", "{n} / 0",
    "self.{f}.matches('{r}')", "self.{f}.size() < {n}", "'{s}' + '{s}' == self.{f}", "self.exists_one(i, i > {n})",
    "has(self.{f}) && self.{f} in {{'a': {n}}}", "timestamp('{s}') < timestamp('9999-99-99')", "duration('{s}') > {n}",
    "self.{f}.split('{s}').size() > {n}", "string({n}).find('{r}') != ''", "[{n}].{f}", "((((self.{f}))))", "self", "",
    "oldSelf.{f} == self.{f}", "quantity('{s}').isGreaterThan(quantity('{n}'))", "self.{f}.lowerAscii().reverse()",
]  # fmt: skip
REGEXES = ["a*b", "(a|b)*c", "[a-z]{1,9}", "(?i)x", "\\\\d+", "(", "[", "(a{9}){9}", "\\\\p{L}*", "^$", "x?y+?"]


def hostile(seed: int) -> list[Hostile]:
    """Return the requests of a seed, one of each sort in an order of its own."""
    chance = Random(seed)  # noqa: S311 - a failure has to happen again
    made = [make(chance) for make in MAKERS]
    chance.shuffle(made)
    return made


class _Largest(Random):
    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002 - as the other one has it
        return b


def largest(seed: int) -> list[Hostile]:
    """Return requests that are as large as these get."""
    chance = _Largest(seed)
    return [make(chance) for make in MAKERS]


def dearest() -> Hostile:
    """Return what is known to cost the most for its size, and can be stored: fields that are told apart by values."""
    finalizers = [f"a/k{number}" for number in range(LARGEST_BODY // 24)]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large", "finalizers": finalizers}}
    query = {"fieldManager": "fuzz", "dryRun": "All"}
    return Hostile("finalizers applied", "PATCH", f"{MAPS}/large", json.dumps(body).encode(), APPLY_PATCH, query)


def _size(chance: Random, most: int) -> int:
    """Return a size: all magnitudes are as likely."""
    return int(2 ** chance.uniform(6, most.bit_length() - 1))


def _tree(chance: Random, depth: int = 0) -> Any:
    if depth > 4 or chance.random() < 0.3:
        return chance.choice(SCALARS)
    if chance.random() < 0.4:
        return [_tree(chance, depth + 1) for _ in range(chance.randrange(4))]
    names = ["metadata", "name", "labels", "spec", "data", "kind", "apiVersion", "finalizers", *WORDS]
    return {chance.choice(names): _tree(chance, depth + 1) for _ in range(chance.randrange(5))}


def _body(chance: Random, kind: str = "ConfigMap", version: str = "v1") -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": f"f{chance.randrange(5)}"}}
    for _ in range(chance.randrange(4)):
        place = chance.choice([body, body["metadata"]] if isinstance(body["metadata"], dict) else [body])
        place[chance.choice(["data", "labels", "annotations", "ownerReferences", "managedFields", "spec", "x"])] = (
            _tree(chance)
        )
    return body


def odd_object(chance: Random) -> Hostile:
    path, kind = chance.choice([(MAPS, "ConfigMap"), (PODS, "Pod"), (f"{NAMESPACE}/services", "Service")])
    return Hostile("odd object", "POST", path, json.dumps(_body(chance, kind)).encode(), query=_dry(chance))


def odd_bytes(chance: Random) -> Hostile:
    data = bytearray(json.dumps(_body(chance)).encode())
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return Hostile("odd bytes", "POST", MAPS, bytes(data), chance.choice([JSON, YAML]), _dry(chance))


PARTS = {
    JSON: ['{"a":1},', '"\\"",', "[],", "1,", "9999999999999999999999,", '"\\u0000",', "{},", '{"a":1,"a":2},', "1e5,"],
    YAML: ["{a: 1},", "&a x,", "*a,", "!!str 1,", "? a,", "[],", "{a: 1, a: 2},", "'',", "0x7f,", "<<: ,", "~,", "- "],
}


def large_list(chance: Random) -> Hostile:
    """A body of one small thing again and again."""
    media = chance.choice([JSON, YAML])
    part = chance.choice(PARTS[media])
    inner = part * (_size(chance, LARGEST_BODY) // len(part))
    start = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large"},"x":['
    text = start + inner.rstrip(",") + "]}" if media == JSON else f"x: &a b\ny: [{inner}]\n"
    return Hostile(f"large list of {part}", "POST", MAPS, text.encode(), media, _dry(chance))


def large_map(chance: Random) -> Hostile:
    """A body of many keys, long or short, in a place where they are looked at."""
    size, length = _size(chance, LARGEST_BODY), chance.choice([1, 8, 60])
    count = size // (length + 12)
    keys = {f"k{number:0{length}}": "v" for number in range(count)}
    where = chance.choice(["data", "labels", "annotations", "finalizers"])
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}}
    (body if where == "data" else body["metadata"])[where] = keys if where != "finalizers" else [f"x/{k}" for k in keys]
    if chance.random() < 0.5:
        return Hostile(f"{count} {where}", "POST", MAPS, json.dumps(body).encode(), JSON, _dry(chance))
    query = {"fieldManager": "fuzz", "force": "true", "dryRun": "All"}
    return Hostile(f"{count} applied", "PATCH", f"{MAPS}/large", json.dumps(body).encode(), APPLY_PATCH, query)


def large_lines(chance: Random) -> Hostile:
    """Plain YAML, line by line."""
    line = chance.choice(["k{}: v\n", "  # {}\n", "- {}\n", "k{}: |\n  x\n", "? {}\n: y\n", "k{}: &a{} [*a{}]\n"])
    count = _size(chance, LARGEST_BODY) // (len(line) + 4)
    text = "".join(line.replace("{}", str(number)) for number in range(count))
    return Hostile(f"{count} lines of {line!r}", "POST", MAPS, text.encode(), YAML, _dry(chance))


def odd_patch(chance: Random) -> Hostile:
    media = chance.choice(PATCHES)
    body: Any = _tree(chance)
    if media == JSON_PATCH:
        paths = [
            "",
            "/",
            "/metadata",
            "/metadata/labels",
            "/data/a",
            "/data/-",
            "/~0",
            "/~2",
            "/" * 300,
            "/metadata/name",
        ]
        body = [
            {
                "op": chance.choice(["add", "remove", "replace", "move", "copy", "test", "", "ADD"]),
                "path": chance.choice(paths),
                "from": chance.choice(paths),
                "value": _tree(chance),
            }
            for _ in range(chance.randrange(6))
        ]
    query = {"fieldManager": "fuzz"} | _dry(chance)
    path = chance.choice([f"{MAPS}/a", f"{PODS}/p", f"{MAPS}/a/status", f"{PODS}/p/status", NAMESPACE])
    return Hostile(f"patch {media}", "PATCH", path, json.dumps(body).encode(), media, query)


def large_patch(chance: Random) -> Hostile:
    """A JSON patch that does something small very often."""
    step = chance.choice([
        {"op": "copy", "from": "/data", "path": "/data/b"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "x/y"},
        {"op": "test", "path": "/metadata/name", "value": "a"}, {"op": "move", "from": "/data", "path": "/data/a"},
        {"op": "add", "path": "/data/" + "~1" * 50, "value": "v"},
    ])  # fmt: skip
    count = _size(chance, LARGEST_BODY // 4) // len(json.dumps(step))
    operations = [{"op": "add", "path": "/metadata/finalizers", "value": []}, *[step] * count]
    return Hostile(
        f"{count} times {step}", "PATCH", f"{MAPS}/a", json.dumps(operations).encode(), JSON_PATCH, {"dryRun": "All"}
    )


def selector(chance: Random) -> Hostile:
    terms = [
        "a=b",
        "!a",
        "a in (b,c)",
        "a notin ()",
        "a>1",
        "a<x",
        "=",
        "(",
        ",",
        "a!=",
        "k{}",
        "!k{}",
        "k{}=v",
        "a!=v{}",
    ]
    name = chance.choice(["labelSelector", "fieldSelector"])
    if name == "fieldSelector":
        terms = ["metadata.name=a", "metadata.name!=n{}", "spec.x=y", "\\", "metadata.namespace=", "=", "a\\,b=c", "=="]
    term = chance.choice(terms)
    count = _size(chance, LONGEST_SELECTOR) // (len(term) + 5) if chance.random() < 0.5 else 1
    text = ",".join([*(term.replace("{}", str(number)) for number in range(count)), chance.choice(terms)])
    query = {name: text} | ({"watch": "true", "timeoutSeconds": "1"} if chance.random() < 0.3 else {})
    return Hostile(f"{count} terms {term}", "GET", chance.choice([MAPS, PODS, "/api/v1/configmaps"]), query=query)


def parameters(chance: Random) -> Hostile:
    query = {name: chance.choice([*NUMBERS, *WORDS]) for name in chance.sample(PARAMETERS, chance.randrange(1, 5))}
    query |= {"timeoutSeconds": chance.choice(["-1", "1", *NUMBERS[5:9]])}  # a watch has to end for the next request
    method = chance.choice(["GET", "GET", "GET", "DELETE", "HEAD"])
    path = chance.choice(
        [MAPS, f"{MAPS}/a", f"{PODS}/p", "/api/v1/namespaces", CRDS, f"{MAPS}/{chance.choice(WORDS[5:9])}"]
    )
    if method == "DELETE":
        path, query["dryRun"] = f"{MAPS}/a", "All"
    return Hostile("parameters", method, path, query=query, accept=chance.choice(ACCEPTS))


def _expression(chance: Random) -> str:
    values = {"f": chance.choice("abc"), "n": chance.choice(["0", "-1", "9223372036854775807", "1.5", "2u"])}
    values |= {"s": chance.choice(["", "x" * 50, "1h", "2020-01-01T00:00:00Z"]), "r": chance.choice(REGEXES)}
    return " && ".join(chance.choice(EXPRESSIONS).format(**values) for _ in range(chance.randrange(1, 4)))


def rule(chance: Random) -> Hostile:
    """A definition with a rule, a pattern and columns."""
    inner: dict[str, Any] = {"type": chance.choice(["string", "integer", "object", "array"]), "maxLength": 10}
    inner["pattern"] = chance.choice(REGEXES).replace("\\\\", "\\")
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": dict.fromkeys("abc", inner)}},
        "x-kubernetes-validations": [{"rule": _expression(chance)} for _ in range(chance.randrange(1, 4))],
    }
    column = {
        "name": "C",
        "type": "string",
        "jsonPath": chance.choice([".spec.a", "..", "$[", ".a[?(@.b==1)]", "", ".*"]),
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fuzzes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "fuzzes", "kind": "Fuzz"},
            "versions": [{**version, "additionalPrinterColumns": [column] * chance.choice([1, 1, 100, 2000])}],
        },
    }
    return Hostile("rule", "POST", CRDS, json.dumps(body).encode(), query={"dryRun": "All"})


RULES = [
    "!has(self.spec) || self.spec.all(k, k.size() < 70)",
    "!has(self.items) || self.items.all(i, i.matches('^[a-z0-9]*$'))",
    "!has(self.items) || self.items.exists_one(i, i == 'a') || !has(self.text) || self.text.split('a').size() > 0",
    "!has(self.text) || self.text.lowerAscii() + self.text != ''",
    "!has(self.items) || !has(oldSelf.items) || self.items.all(i, i in oldSelf.items)",
]  # fmt: skip
_STRING = {"type": "string", "maxLength": 200}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ruleds.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "ruleds", "kind": "Ruled"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "additionalProperties": _STRING, "maxProperties": 1000},
                    "items": {"type": "array", "items": _STRING, "maxItems": 1000},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "text": {"type": "string", "maxLength": 100_000},
                },
                "x-kubernetes-validations": [{"rule": rule} for rule in RULES],
            }},
        }],
    },
}  # fmt: skip


def ruled(chance: Random) -> Hostile:
    """An object that rules are run on, for as long as they may."""
    size, name = _size(chance, LARGEST_BODY), f"r{chance.randrange(2)}"
    body: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Ruled", "metadata": {"name": name}}
    count = min(size // 12, chance.choice([900, 40_000]))
    where = chance.choice(["spec", "items", "free", "text"])
    values: dict[str, Any] = {
        "spec": {f"k{number}": "v" for number in range(count)},
        "items": [f"a{number % 7}" for number in range(count)],
        "free": {f"k{number}": [number] for number in range(count)},
        "text": "a" * min(size, 99_000),
    }
    body[where] = values[where]
    path = f"/apis/example.com/v1/namespaces/fuzzed/ruleds{chance.choice(['', f'/{name}'])}"
    if not path.endswith("s"):
        query = {"fieldManager": "fuzz", "force": "true"}
        return Hostile(f"{count} ruled {where} applied", "PATCH", path, json.dumps(body).encode(), APPLY_PATCH, query)
    return Hostile(f"{count} ruled {where}", "POST", path, json.dumps(body).encode(), JSON, _dry(chance))


def policy(chance: Random) -> Hostile:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": _expression(chance).replace("self", "object")} for _ in range(3)],
        "variables": [{"name": "v", "expression": _expression(chance)}],
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    body |= {"metadata": {"name": "fuzz"}, "spec": spec}  # type: ignore[dict-item] # JSON
    return Hostile("policy", "POST", POLICIES, json.dumps(body).encode(), query={"dryRun": "All"})


def rights(chance: Random) -> Hostile:
    """A role whose rules stand for very many rights."""
    count = chance.choice([1, 10, 300])
    rules = [
        {name: [f"{name[0]}{number}" for number in range(count)] for name in ("apiGroups", "resources", "verbs")}
    ] * chance.choice([1, 20])
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
    return Hostile(f"{len(rules)} rules of {count}³", "POST", ROLES, json.dumps(body).encode(), query={"dryRun": "All"})


def _dry(chance: Random) -> dict[str, str]:
    how = {"dryRun": "All"}
    if chance.random() < 0.5:
        how["fieldValidation"] = chance.choice(["Strict", "Warn", "Ignore", "x"])
    return how


MAKERS: tuple[Callable[[Random], Hostile], ...] = (
    odd_object, odd_bytes, large_list, large_map, large_lines, odd_patch, large_patch, selector, parameters, rule,
    policy, rights, ruled,
)  # fmt: skip
