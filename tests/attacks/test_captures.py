"""Fleets and changes that strangers sent as files, and Secrets that must not be in such a file."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from echelon.api.yaml_documents import UnreadableYaml, read_documents
from echelon.cli.lint import lint
from echelon.cli.plan import plan
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.fleet.capture import BadCapture, Capture, read_capture, to_document

HEAD = "apiVersion: echelon.dev/v1alpha1\nkind: FleetCapture\ncapturedAt: '2026-11-01T12:00:00Z'\n"
BOMB = "a: &a [x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ESCAPES = "\x1b[2Jnothing changes\x07\u202e"


def capture_of(*objects: dict[str, Any]) -> str:
    return json.dumps({
        "apiVersion": "echelon.dev/v1alpha1", "kind": "FleetCapture", "capturedAt": "2026-11-01T12:00:00Z",
        "objects": list(objects),
    })  # fmt: skip


def one(name: Any, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **fields}}


FILES: dict[str, str | bytes] = {
    "aliases of aliases": HEAD + BOMB,
    "an alias of itself": HEAD + "objects: &a [{apiVersion: v1, kind: Namespace, metadata: {name: a}, spec: {x: *a}}]",
    "lists in lists": HEAD + "x: " + "[" * 100_000 + "]" * 100_000,
    "lines of lists in lists": HEAD + "x:\n  " + "- " * 100_000 + "x",
    "JSON in JSON": '{"kind":' + "[" * 100_000,
    "a number that is too long": HEAD + "x: " + "9" * 5000,
    "a day that is none": HEAD + "x: 2020-99-99",
    "a name that is none": HEAD + "objects: [{apiVersion: v1, kind: Namespace, metadata: {name: [1]}}]",
    "a namespace that is none": HEAD + "objects: [{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: 5}}]",
    "shared under no name": HEAD + "objects: [{metadata: {name: a}, spec: {echelon.dev/shared: [1]}}]",
    "a key that is a list": HEAD + "? [a]\n: b",
    "code": HEAD + "x: !!python/object/apply:os.system [id]",
    "no text": b"\xff\xfe\x00",
    "several documents": f"{HEAD}---\n{HEAD}",
    "objects that are none": HEAD + "objects: [1, null, [], {}]",
    "no list of objects": HEAD + "objects: {a: b}",
    "a time that is none": HEAD.replace("2026", "20262026"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_capture_is_refused_with_a_word_why(name: str) -> None:
    text = FILES[name]
    with pytest.raises(BadCapture):
        read_capture(text.encode() if isinstance(text, str) else text)


CHANGES = [
    name for name in FILES if name.startswith(("aliases", "an alias", "lists", "lines", "a number", "a day", "code"))
]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_read_ends_with_an_error_and_not_with_the_process(name: str, tmp_path: Path) -> None:
    """The fast loader has the machine end the process when it runs out of stack: that of these tests."""
    text = FILES[name]
    assert isinstance(text, str)
    for found in (planned(tmp_path, text, capture_of(one("a"))), linted(tmp_path, text)):
        assert isinstance(found.exception, SystemExit)
        assert found.exit_code in (1, 2)
        assert str(tmp_path / "change.yaml") in found.output


def test_what_aliases_are_for_is_still_read() -> None:
    text = "base: &base {image: registry/web, replicas: 3}\nfirst: *base\nsecond: {<<: *base, replicas: 4}\n"
    (found,) = read_documents(text)
    assert (found["first"], found["second"]["replicas"]) == (found["base"], 4)
    with pytest.raises(UnreadableYaml, match="aliases"):
        read_documents(BOMB)


ODD: dict[str, list[dict[str, Any]]] = {
    "owners in a circle": [
        one("a", uid="1", ownerReferences=[{"apiVersion": "v1", "kind": "Namespace", "name": "b", "uid": "2"}]),
        one("b", uid="2", ownerReferences=[{"apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "1"}]),
    ],
    "labels that are none": [one("a", labels=["x"]), one("b", labels={"a": 5}), one("c", annotations="x")],
    "a kind that is none": [{"apiVersion": ["v1"], "kind": {"a": "b"}, "metadata": {"name": "a"}}],
    "no kind": [{"metadata": {"name": "a"}}],
    "the same twice": [one("a"), one("a")],
    "clusters of any form": [
        {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "c"},
         "spec": {"taints": {"a": "b"}}, "status": {"conditions": "all well"}},
        {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
         "metadata": {"name": ESCAPES}, "spec": {"hubAcceptsClient": True}},
    ],
}  # fmt: skip
PLACEMENT = """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all, namespace: default}
spec: {}
"""


def planned(tmp_path: Path, change: str, fleet: str, *more: str) -> Result:
    (tmp_path / "change.yaml").write_text(change)
    (tmp_path / "fleet.json").write_text(fleet)
    return CliRunner().invoke(
        plan, ["-f", str(tmp_path / "change.yaml"), "--fleet", str(tmp_path / "fleet.json"), *more]
    )


def linted(tmp_path: Path, change: str) -> Result:
    (tmp_path / "change.yaml").write_text(change)
    return CliRunner().invoke(lint, ["-f", str(tmp_path / "change.yaml")])


@pytest.mark.parametrize("output", [(), ("-o", "wide"), ("-o", "json"), ("-o", "yaml")], ids=str)
@pytest.mark.parametrize("name", ODD)
def test_whatever_objects_a_fleet_has_a_plan_is_made_or_refused(
    name: str, output: tuple[str, ...], tmp_path: Path
) -> None:
    found = planned(tmp_path, PLACEMENT, capture_of(*ODD[name]), *output)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code in (0, 2, 4, 10)
    assert not {"\x1b", "\x07", "\u202e"} & set(found.output)


def test_names_of_a_change_are_shown_as_text(tmp_path: Path) -> None:
    hostile = json.dumps(ESCAPES)
    for change in (
        PLACEMENT.replace("name: all", f"name: {hostile}"),
        PLACEMENT.replace("kind: Placement", f"kind: {hostile}"),
        PLACEMENT.replace("namespace: default", f"namespace: {hostile}"),
        PLACEMENT.replace("spec: {}", f"spec: {{{hostile}: {hostile}}}"),
    ):
        for output in ((), ("-o", "wide"), ("-o", "json"), ("-o", "yaml")):
            found = planned(tmp_path, change, capture_of(one("default")), *output)
            assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
            assert not {"\x1b", "\x07", "\u202e"} & set(found.output), (change, output)


# --- Secrets ---------------------------------------------------------------------------------------------------------

WORD = "hunter2"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "annotations": {LAST_APPLIED: json.dumps({"kind": "Secret", "data": {"a": WORD}})}},
    "data": {"a": WORD},
    "stringData": {"b": WORD},
}
BARE = {name: value for name, value in SECRET.items() if name not in ("apiVersion", "kind")}


def work(*manifests: Any, **metadata: Any) -> dict[str, Any]:
    kind = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork"}
    return {
        **kind,
        "metadata": {"name": "w", "namespace": "c", **metadata},
        "spec": {"workload": {"manifests": [*manifests]}},
    }


def noted(name: str, text: str) -> dict[str, Any]:
    return {"annotations": {name: text}}


LEAKS: dict[str, dict[str, Any]] = {
    "a manifest": work(SECRET),
    "a list of manifests": work({"apiVersion": "v1", "kind": "List", "items": [SECRET]}),
    "a list of Secrets that do not say so": work({"apiVersion": "v1", "kind": "SecretList", "items": [BARE]}),
    "a work in a work": work(work(SECRET, **noted(LAST_APPLIED, json.dumps(work(SECRET))))),
    "what was applied last": work(**noted(LAST_APPLIED, json.dumps(work(SECRET)))),
    "what was applied last, and is no JSON": work(**noted(LAST_APPLIED, f"data: {WORD}")),
    "what was applied last of a Secret, and does not say so": work(
        {**SECRET, "metadata": {"name": "s", "annotations": {LAST_APPLIED: json.dumps({"data": {"word": WORD}})}}}
    ),
    "what is kept of Secrets, and nothing else": work(**noted(SECRET_DATA, WORD)),
    "what is kept of Secrets": work(annotations={SECRET_DATA: WORD, "a": "b"}),
    "what is kept of Secrets in a work in a work": work(work(**noted(SECRET_DATA, WORD))),
    "who wrote what": work(managedFields=[{"fieldsV1": {f"v:{WORD}": {}}}]),
    "a revision": {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "namespace": "n"},
        "data": {"spec": {"manifestWorkTemplate": {"workload": {"manifests": [SECRET]}}}},
    },
    "a policy": {
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"policy-templates": [{"objectDefinition": {
            "kind": "ConfigurationPolicy",
            "spec": {"object-templates": [{"complianceType": "musthave", "objectDefinition": SECRET}]},
        }}]},
    },
    "a policy of text": {
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"policy-templates": [{"objectDefinition": {
            "kind": "ConfigurationPolicy", "spec": {"object-templates-raw": f"kind: Secret\ndata: {{a: {WORD}}}"},
        }}]},
    },
    "an override": {
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "o", "namespace": "n"},
        "spec": {"overrideRules": [{"overriders": {"plaintext": [
            {"path": "/data/a", "operator": "replace", "value": WORD},
            {"path": "/stringData", "operator": "add", "value": {"a": WORD}},
        ]}}]},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_nothing_that_a_secret_holds_is_in_a_capture(name: str) -> None:
    taken = datetime(2026, 1, 1, tzinfo=UTC)
    written = json.dumps(to_document(Capture(taken, (LEAKS[name], LEAKS[name]))))
    assert WORD not in written
    assert read_capture(written.encode()).objects[0]["metadata"]["name"] == LEAKS[name]["metadata"]["name"]


@pytest.mark.parametrize("text", ["[" * 100_000, '"\\ud800"', "9" * 5000, "", "nul"], ids=lambda text: text[:9])
def test_an_annotation_that_cannot_be_read_stops_no_capture(text: str) -> None:
    written = to_document(Capture(datetime(2026, 1, 1, tzinfo=UTC), (work(**noted(LAST_APPLIED, text)), one("a"))))
    assert [each["metadata"]["name"] for each in written["objects"]] == ["w", "a"]
