"""Grove's, Karmada's and OpenKruise's kinds are what the specification says, and refuse what upstream refuses.

The tables in `spec_tables_grove_karmada/` were written from the specification. The samples named `bad-` say in their
first line which field a server must complain about; a real kube-apiserver gave the same answers.
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from echelon.api import grove, karmada, kruise, propagation
from echelon.api.base import JSONObject
from echelon.api.crd import check_structural, crd
from echelon.api.kinds import Kind
from echelon.api.pods import PodSpec
from echelon.api.schema import schema_of
from echelon.hub.schema.cel import Rules
from echelon.hub.schema.structural import Structural
from echelon.hub.schema.validation import Validator

HERE = Path(__file__).parent
MODULES = (grove, karmada, kruise, propagation)
KINDS: dict[str, Kind[Any]] = {kind.kind: kind for module in MODULES for kind in module.KINDS}
TABLES: dict[str, JSONObject] = {
    kind: table
    for path in sorted((HERE / "spec_tables_grove_karmada").glob("*.yaml"))
    for kind, table in yaml.safe_load(path.read_text()).items()
}
SAMPLES = [
    path for group in ("grove", "karmada", "kruise") for path in sorted((HERE / "samples" / group).glob("*.yaml"))
]
GOOD = [pytest.param(path, id=path.stem) for path in SAMPLES if path.stem.startswith("good-")]
BAD = [pytest.param(path, id=path.stem) for path in SAMPLES if path.stem.startswith("bad-")]
WORDS = {
    "intOrString": "x-kubernetes-int-or-string",
    "preserveUnknown": "x-kubernetes-preserve-unknown-fields",
    "listMapKeys": "x-kubernetes-list-map-keys",
}


def load(path: Path) -> JSONObject:
    document: JSONObject = yaml.safe_load(path.read_text())
    return document


def served_schema(kind: Kind[Any]) -> JSONObject:
    schema: JSONObject = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


SCHEMAS = {name: served_schema(kind) for name, kind in KINDS.items()}
RULES = {name: Rules.compile(schema) for name, schema in SCHEMAS.items()}


def complaints(document: JSONObject, old: JSONObject | None = None) -> list[str]:
    """Return the fields that a server complains about, after it has filled in defaults."""
    schema = SCHEMAS[document["kind"]]
    structural = Structural(schema)
    obj = structural.default(structural.prune(document)[0])
    before = None if old is None else structural.default(structural.prune(old)[0])
    found = Validator(schema).validate(obj, before)
    found += RULES[document["kind"]].evaluate(obj, before, after=found)
    return [cause.field for cause in found]


def at(schema: JSONObject, path: str) -> tuple[JSONObject, bool]:
    """Return the schema at a path, and whether it is required."""
    required = False
    for part in path.split("."):
        name = part.removesuffix("[]")
        required = name in schema.get("required", [])
        schema = schema["properties"][name]
        schema = schema["items"] if part.endswith("[]") else schema
    return schema, required


@pytest.mark.parametrize("kind", TABLES)
def test_fields_have_the_types_defaults_and_limits_of_the_table(kind: str) -> None:
    table = TABLES[kind]["fields"]
    found = {path: at(SCHEMAS[kind], path) for path in table}
    assert {
        path: {word: schema.get(WORDS.get(word, word)) for word in table[path].keys() - {"required"}}
        for path, (schema, _) in found.items()
    } == {path: {word: value for word, value in said.items() if word != "required"} for path, said in table.items()}
    always = {path for path, (schema, required) in found.items() if required or "default" in schema}
    assert {path for path, said in table.items() if said.get("required")} <= always


@pytest.mark.parametrize("name", TABLES)
def test_a_kind_is_served_as_its_table_says(name: str) -> None:
    kind, table = KINDS[name], TABLES[name]
    served = table["served"]
    assert (kind.group, kind.version, kind.plural) == (served["group"], served["version"], served["plural"])
    assert list(kind.short_names) == served["short"]
    assert (kind.status, kind.namespaced) == (served.get("status", True), served.get("namespaced", True))
    assert not kind.builtin
    assert (kind.scale.selector if kind.scale else None) == served.get("scale")
    assert [column.name for column in kind.columns if column.name in table["columns"]] == table["columns"]


def test_every_kind_has_a_table_and_a_full_sample() -> None:
    full = {load(path)["kind"] for path in SAMPLES if path.stem.endswith("-full")}
    assert KINDS.keys() == TABLES.keys() == full


@pytest.mark.parametrize("kind", KINDS)
def test_a_crd_is_structural(kind: str) -> None:
    assert check_structural(SCHEMAS[kind]) == []


@pytest.mark.parametrize("sample", GOOD)
def test_a_sample_survives_decoding_and_encoding(sample: Path) -> None:
    document = load(sample)
    decoded = msgspec.json.decode(msgspec.json.encode(document), type=KINDS[document["kind"]].type)
    assert without_defaults(msgspec.to_builtins(decoded)) == without_defaults(document)


def without_defaults(value: Any) -> Any:
    """Return a document without what may be written or not: its kind, empty values and defaults."""
    optional: tuple[Any, ...] = ("", 0, True, "4h", "RollingRecreate", [], {})
    if isinstance(value, dict):
        kept = {key: without_defaults(part) for key, part in value.items() if key not in ("apiVersion", "kind")}
        return {key: part for key, part in kept.items() if part not in optional}
    return [without_defaults(part) for part in value] if isinstance(value, list) else value


def paths(schema: JSONObject, path: str = "") -> Iterator[str]:
    """Yield the fields of a schema, down to those that are lists, maps or scalars; pods have their own tests."""
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if name in ("podSpec", "conditions", "metrics", "metadata", "hardNodeAffinity", "tolerations", "selector"):
            continue
        yield here
        yield from paths(part.get("items", part), here)


def used(value: Any, path: str = "") -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else ():
        here = f"{path}.{key}" if path else key
        yield here
        for item in part if isinstance(part, list) else [part]:
            yield from used(item, here)


@pytest.mark.parametrize("kind", KINDS)
def test_the_full_sample_of_a_kind_fills_every_field(kind: str) -> None:
    [full] = [load(path) for path in SAMPLES if path.stem == f"good-{kind.lower()}-full"]
    # A part that occurs in several places is filled in one of them at least.
    assert {_last(path) for path in paths(SCHEMAS[kind])} - {_last(path) for path in used(full)} == set()


def _last(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")[-2:])


@pytest.mark.parametrize("sample", GOOD)
def test_a_good_sample_is_accepted(sample: Path) -> None:
    assert complaints(load(sample)) == []


@pytest.mark.parametrize("sample", BAD)
def test_a_bad_sample_is_refused_for_the_field_that_it_names(sample: Path) -> None:
    first, _ = sample.read_text().split("\n", 1)
    assert first.removeprefix("# error: ") in complaints(load(sample))


# --- what may change --------------------------------------------------------------------------------------------------

Edit = Callable[[JSONObject], Any]
TEMPLATE = "spec.template"


def cliques(doc: JSONObject) -> list[JSONObject]:
    found: list[JSONObject] = doc["spec"]["template"]["cliques"]
    return found


def group(doc: JSONObject) -> JSONObject:
    found: JSONObject = doc["spec"]["template"]["podCliqueScalingGroups"][0]
    return found


REFUSED: dict[str, tuple[Edit, str]] = {
    "a clique goes": (lambda d: cliques(d).pop(0), f"{TEMPLATE}.cliques"),
    "a clique comes": (
        lambda d: cliques(d).append(
            {**cliques(d)[0], "name": "more", "spec": {**cliques(d)[0]["spec"], "roleName": "more"}}
        ),
        f"{TEMPLATE}.cliques",
    ),
    "the order changes": (lambda d: cliques(d).reverse(), f"{TEMPLATE}.cliques"),
    "a role changes": (
        lambda d: cliques(d)[0]["spec"].update(roleName="x"),
        f"{TEMPLATE}.cliques[0].spec.roleName",
    ),
    "a clique's minimum changes": (
        lambda d: cliques(d)[0]["spec"].update(minAvailable=1),
        f"{TEMPLATE}.cliques[0].spec.minAvailable",
    ),
    "a clique's minimum goes": (
        lambda d: cliques(d)[0]["spec"].pop("minAvailable"),
        f"{TEMPLATE}.cliques[0].spec.minAvailable",
    ),
    "a startup dependency changes": (
        lambda d: cliques(d)[2]["spec"].update(startsAfter=["front"]),
        f"{TEMPLATE}.cliques[2].spec.startsAfter",
    ),
    "the startup type changes": (
        lambda d: d["spec"]["template"].update(cliqueStartupType="CliqueStartupTypeAnyOrder"),
        f"{TEMPLATE}.cliqueStartupType",
    ),
    "a topology changes": (
        lambda d: d["spec"]["template"]["topologyConstraint"]["pack"].update(required="region"),
        f"{TEMPLATE}.topologyConstraint",
    ),
    "a clique's topology changes": (
        lambda d: cliques(d)[0]["topologyConstraint"]["pack"].update(preferred="rack"),
        f"{TEMPLATE}.cliques[0].topologyConstraint",
    ),
    "a group's topology goes": (
        lambda d: group(d).pop("topologyConstraint"),
        f"{TEMPLATE}.podCliqueScalingGroups[0].topologyConstraint",
    ),
    "a clique's scheduler changes": (
        lambda d: [each["spec"]["podSpec"].update(schedulerName="other") for each in cliques(d)],
        f"{TEMPLATE}.cliques[0].spec.podSpec.schedulerName",
    ),
    "claim templates change": (
        lambda d: d["spec"]["template"]["resourceClaimTemplates"][0].update(templateSpec={}),
        f"{TEMPLATE}.resourceClaimTemplates",
    ),
    "a group's sharing goes": (
        lambda d: group(d).pop("resourceSharing"),
        f"{TEMPLATE}.podCliqueScalingGroups[0].resourceSharing",
    ),
    "a set's sharing goes": (lambda d: d["spec"]["template"].pop("resourceSharing"), f"{TEMPLATE}.resourceSharing"),
    "sharing goes": (lambda d: cliques(d)[0].pop("resourceSharing"), f"{TEMPLATE}.cliques[0].resourceSharing"),
    "a group goes": (
        lambda d: d["spec"]["template"].pop("podCliqueScalingGroups"),
        f"{TEMPLATE}.podCliqueScalingGroups",
    ),
    "a group's cliques change": (
        lambda d: group(d).update(cliqueNames=["worker"]),
        f"{TEMPLATE}.podCliqueScalingGroups[0].cliqueNames",
    ),
    "a group's minimum changes": (
        lambda d: group(d).update(minAvailable=1),
        f"{TEMPLATE}.podCliqueScalingGroups[0].minAvailable",
    ),
}
ALLOWED: dict[str, Edit] = {
    "the size": lambda d: d["spec"].update(replicas=7),
    "the strategy goes": lambda d: d["spec"].pop("updateStrategy"),
    "the priority": lambda d: d["spec"]["template"].update(priorityClassName="low"),
    "the termination delay": lambda d: d["spec"]["template"].update(terminationDelay="2h"),
    "labels": lambda d: cliques(d)[0].update(labels={"a": "b"}),
    "the pods": lambda d: cliques(d)[0]["spec"]["podSpec"]["containers"][0].update(image="registry.example/front:2"),
    "a clique's size": lambda d: cliques(d)[0]["spec"].update(replicas=5),
    "a clique's scaling": lambda d: cliques(d)[0]["spec"].pop("autoScalingConfig"),
    "a group's size": lambda d: group(d).update(replicas=6),
    "a brake in mid-roll": lambda d: d["spec"].update(updateStrategy={"type": "OnDelete"}),
    "the service": lambda d: d["spec"]["template"].update(headlessServiceConfig={"publishNotReadyAddresses": False}),
    "a clique's limits": lambda d: cliques(d)[0].update(rollingUpdate={"maxUnavailable": 3}),
    "a clique's annotations": lambda d: cliques(d)[0].update(annotations={"note": "core"}),
    "a group's scaling": lambda d: group(d).update(scaleConfig={"minReplicas": 3, "maxReplicas": 9}),
    "a group's annotations": lambda d: group(d).update(annotations={}),
}


def edited(edit: Edit) -> tuple[JSONObject, JSONObject]:
    old = load(HERE / "samples/grove/good-podcliqueset-full.yaml")
    new = copy.deepcopy(old)
    edit(new)
    assert new != old
    return new, old


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_a_gang_may_not_change(name: str) -> None:
    edit, field = REFUSED[name]
    assert field in complaints(*edited(edit))


@pytest.mark.parametrize("name", ALLOWED)
def test_everything_else_of_a_set_may_change(name: str) -> None:
    assert complaints(*edited(ALLOWED[name])) == []


@pytest.mark.parametrize(
    ("startup", "field"),
    [("AnyOrder", []), ("InOrder", [f"{TEMPLATE}.cliques"]), ("Explicit", [f"{TEMPLATE}.cliques"])],
)
def test_the_order_may_change_when_cliques_start_in_any_order_only(startup: str, field: list[str]) -> None:
    def edit(doc: JSONObject) -> None:
        cliques(doc).reverse()

    new, old = edited(edit)
    for doc in (new, old):
        doc["spec"]["template"]["cliqueStartupType"] = f"CliqueStartupType{startup}"
    assert complaints(new, old) == field


# --- pods inside ------------------------------------------------------------------------------------------------------


def test_a_clique_keeps_its_pods_as_the_user_wrote_them() -> None:
    document = load(HERE / "samples/grove/good-podclique-full.yaml")
    pods = Structural(SCHEMAS["PodClique"]).default(copy.deepcopy(document))["spec"]["podSpec"]
    assert pods.keys() == document["spec"]["podSpec"].keys()
    # A port is found by number and protocol, so the protocol has to be there.
    assert pods["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_a_clique_knows_every_field_of_a_pod() -> None:
    ours = at(SCHEMAS["PodClique"], "spec.podSpec")[0]["properties"]
    assert ours.keys() == schema_of(PodSpec)["properties"].keys()


def test_a_cloneset_keeps_template_fields_that_nobody_knows() -> None:
    document = load(HERE / "samples/kruise/good-cloneset-full.yaml")
    document["spec"]["template"]["spec"]["aFieldOfTomorrow"] = {"x": 1}
    pruned, unknown = Structural(SCHEMAS["CloneSet"]).prune(copy.deepcopy(document))
    assert unknown == []
    assert pruned["spec"]["template"] == document["spec"]["template"]
