"""Collect the protobuf field numbers of the built-in kinds, and how Go would print each field as JSON.

The schema files of Kubernetes know numbers and types. What they do not know, and the JSON form needs, stands in the
tags of the Go structs: the JSON name, whether a part is inlined into its parent, and whether a zero means "not set"
(a value with `omitempty`) or zero (a pointer). Both are read here, and the facts go into one table; run it again
for a new Kubernetes version, with the directory that holds its modules:

    PYTHONPATH=src python tools/protobuf_fields.py "$(go env GOMODCACHE)/k8s.io" v0.36.3

A type, tag or JSON form that the decoder has no rule for ends the run, so that it is never guessed; in the end, the
examples that come with the modules, each object in both formats, must decode to the same.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from echelon.api import registry
from echelon.api.base import JSON
from echelon.hub.web.protobuf import FORMS, OMIT_ZERO, SCALARS, decode

OUTPUT = Path(__file__).parents[1] / "src" / "echelon" / "hub" / "web" / "protobuf_fields.json"

# What clients send besides the kinds that have a resource of their own. `*`: part of every group.
_OTHER_KINDS = {
    "*/DeleteOptions": "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "v1/Status": "k8s.io.apimachinery.pkg.apis.meta.v1.Status",
    "v1/Binding": "k8s.io.api.core.v1.Binding",
    "autoscaling/v1/Scale": "k8s.io.api.autoscaling.v1.Scale",
    "policy/v1/Eviction": "k8s.io.api.policy.v1.Eviction",
    "authentication.k8s.io/v1/TokenRequest": "k8s.io.api.authentication.v1.TokenRequest",
}
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROTO_FIELD = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_GO_FIELD = re.compile(r"^\s+(?:\w+[ \t]+)?([^\s`/]\S*)[ \t]+`(.*)`", re.MULTILINE)
_TAG = re.compile(r'(\w+):"([^"]*)"')
_MARSHAL = re.compile(r"^func \(\w* ?\*?(\w+)\) MarshalJSON\(", re.MULTILINE)


@dataclass(frozen=True)
class ProtoField:
    """A line of a schema file."""

    number: int
    name: str
    type: str
    many: str  # "", "list" or "map"


@dataclass(frozen=True)
class GoField:
    """What a Go struct says about the field with the same number."""

    json_name: str
    inline: bool
    pointer: bool
    omit: str  # "", "omitempty" or "omitzero"


@dataclass
class Package:
    """A directory of Go files with their schema file."""

    name: str
    messages: dict[str, list[ProtoField]] = field(default_factory=dict)
    structs: dict[str, dict[int, GoField]] = field(default_factory=dict)
    printed_by_code: set[str] = field(default_factory=set)

    def resolve(self, written: str) -> str:
        """Return the full name of a type as the schema file writes it."""
        if written in SCALARS:
            return written
        return written[1:] if written.startswith(".") else f"{self.name}.{written}"


def read_package(modules: Path, version: str, name: str) -> Package:
    """Read the schema and the structs of a package."""
    module, *rest = name.removeprefix("k8s.io.").replace("_", "-").split(".")
    directory = modules.joinpath(f"{module}@{version}", *rest)
    package = Package(name)
    for message, body in _MESSAGE.findall((directory / "generated.proto").read_text()):
        package.messages[message] = list(_proto_fields(body))
    for path in sorted(directory.glob("*.go")):
        if path.name.endswith("_test.go") or path.name == "generated.pb.go":
            continue
        text = path.read_text()
        package.printed_by_code.update(_MARSHAL.findall(text))
        for struct, body in _STRUCT.findall(text):
            package.structs[struct] = dict(_go_fields(body))
    return package


def _proto_fields(body: str) -> Iterator[ProtoField]:
    for label, plain, mapped, name, number in _PROTO_FIELD.findall(body):
        many = "map" if mapped else "list" if label == "repeated" else ""
        yield ProtoField(int(number), name, mapped or plain, many)


def _go_fields(body: str) -> Iterator[tuple[int, GoField]]:
    for go_type, text in _GO_FIELD.findall(body):
        tags = dict(_TAG.findall(text))
        if "json" not in tags or tags.get("protobuf", "-") == "-":
            continue
        name, *options = tags["json"].split(",")
        omit = next((option for option in ("omitzero", "omitempty") if option in options), "")
        number = int(tags["protobuf"].split(",")[1])
        yield number, GoField(name, "inline" in options, go_type.startswith("*"), omit)


def short(name: str) -> str:
    """Return the name that the table uses: type and the two parts before it are unique."""
    return ".".join(name.split(".")[-3:]) if "." in name else name


def message_fields(package: Package, message: str) -> dict[str, list[str]]:
    """Return `number: [JSON name, type, rule]` of a message."""
    by_code = short(f"{package.name}.{message}") in FORMS
    if not by_code and message in package.printed_by_code:
        raise SystemExit(f"{package.name}.{message} has a JSON form of its own that the decoder does not know")
    found = {}
    for each in sorted(package.messages[message], key=lambda each: each.number):
        full = package.resolve(each.type)
        if by_code:
            # The decoder makes the JSON form from these; embedded JSON is read at once.
            kind = "json" if full == "bytes" else short(full)
            found[str(each.number)] = [each.name, kind, each.many]
            continue
        go = package.structs.get(message, {}).get(each.number)
        if go is None:
            raise SystemExit(f"no Go struct has a tag for {package.name}.{message}.{each.name}")
        if go.json_name != "-":
            found[str(each.number)] = [go.json_name, short(full), each.many or _rule(go, full)]
    return found


def _rule(go: GoField, full: str) -> str:
    if go.inline:
        return "inline"
    # A struct is printed even if empty, with or without `omitempty`; a server cannot tell port 0 from no port.
    can_be_left_out = go.omit == "omitzero" or (go.omit and (full in SCALARS or full.endswith(".IntOrString")))
    return OMIT_ZERO if can_be_left_out and not go.pointer else ""


def kinds() -> dict[str, str]:
    """Return the messages that a body may be, by API version and kind."""
    found = dict(_OTHER_KINDS)
    for kind in registry.registry().kinds:
        if kind.builtin:
            part = kind.group.split(".")[0] or "core"
            package = _EXTENSIONS if part == "apiextensions" else f"k8s.io.api.{part}.{kind.version}"
            found["/".join(filter(None, (kind.group, kind.version, kind.kind)))] = f"{package}.{kind.kind}"
    return found


def collect(modules: Path, version: str) -> dict[str, dict[str, list[str]]]:
    """Return all messages that can be reached from the kinds."""
    packages: dict[str, Package] = {}
    messages: dict[str, dict[str, list[str]]] = {}
    wanted = sorted(set(kinds().values()))
    seen = set(wanted)
    while wanted:
        full = wanted.pop()
        name, _, message = full.rpartition(".")
        if name not in packages:
            packages[name] = read_package(modules, version, name)
        if short(full) in messages:
            raise SystemExit(f"two messages are called {short(full)}")
        messages[short(full)] = message_fields(packages[name], message)
        used = {packages[name].resolve(each.type) for each in packages[name].messages[message]} - set(SCALARS)
        wanted += sorted(used - seen)
        seen |= used
    return messages


def check_examples(modules: Path, version: str) -> int:
    """Decode the example of each kind, compare it with its JSON form, and return how many there were."""
    directories = (f"api@{version}", f"apiextensions-apiserver@{version}/pkg/apis")
    checked = 0
    for kind in kinds():
        name = kind.replace("*", "v1").replace("/", ".")
        name = f"core.{name}" if name.startswith("v1.") else name
        for path in (modules / directory / "testdata" / "HEAD" / name for directory in directories):
            example = path.with_name(f"{path.name}.pb")
            if example.exists():
                printed = without_nulls(json.loads(example.with_suffix(".json").read_text()))
                if without_nulls(decode(example.read_bytes(), json.loads)) != printed:
                    raise SystemExit(f"{kind} does not decode to what Go prints")
                checked += 1
    return checked


def without_nulls(value: JSON) -> JSON:
    """Leave out what Go prints as null: it is the same as nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    """Write the table: one line a message, so that a new version shows as a readable difference."""
    modules, version = Path(sys.argv[1]), sys.argv[2]
    messages = collect(modules, version)
    lines = [f"{json.dumps(name)}:{json.dumps(messages[name], separators=(',', ':'))}" for name in sorted(messages)]
    listed = json.dumps({name: short(full) for name, full in sorted(kinds().items())}, separators=(",", ":"))
    OUTPUT.write_text('{"kinds":' + listed + ',\n"messages":{\n' + ",\n".join(lines) + "\n}}\n")
    print(f"{len(messages)} messages of {len(kinds())} kinds; {check_examples(modules, version)} examples agree")


if __name__ == "__main__":
    main()
