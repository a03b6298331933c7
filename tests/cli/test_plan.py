"""`echelon plan` as people and gates use it: files, a captured fleet, what is printed, and what the exit code says."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.cli.plan_world import (
    NS,
    cluster,
    deployment,
    documents,
    fleet,
    loop_of,
    made,
    plan_world,
    policy,
    small_fleet,
    work_set,
)

from echelon.api.base import JSONObject
from echelon.cli import main
from echelon.engine.forecast.model import Assumptions
from echelon.fleet.capture import read_capture, to_document

SLOWLY: JSONObject = {
    "type": "ProgressivePerGroup",
    "progressivePerGroup": {"minSuccessTime": "5m", "progressDeadline": "10m", "maxFailures": 0},
}
_PAIRS = zip("abcdefgh", "bcdefghi", strict=True)
BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in _PAIRS)
SECRET = "c2VjcmV0LXdvcmQ="


def secret(value: str = SECRET) -> JSONObject:
    meta = {"name": "token", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"word": value}}


def with_secret(image: str, value: str = SECRET) -> JSONObject:
    found = work_set(image, SLOWLY)
    found["spec"]["manifestWorkTemplate"]["workload"]["manifests"] = [deployment(image), secret(value)]
    return found


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet of six clusters, five of them chosen, that have a work set and a policy; written down."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.json"
    path.write_text(json.dumps(to_document(small_fleet(with_secret("web:1"), *policy("1", {"type": "All"})))))
    return path


@pytest.fixture
def plan(captured: Path, tmp_path: Path) -> Callable[..., Result]:
    """Plan for objects, which are written into one file."""

    def run(*objects: JSONObject, options: tuple[str, ...] = (), code: int = 10, **more: Any) -> Result:
        file = tmp_path / "change.yaml"
        file.write_text(yaml.safe_dump_all(each.body for each in documents(*objects)))
        arguments = ["plan", "-f", str(file), "--fleet", str(captured), *options]
        result = CliRunner().invoke(main, arguments, **more)
        assert result.exit_code == code, (result.exit_code, result.output)
        assert "Traceback" not in result.output
        return result

    return run


def planned(plan: Callable[..., Result], *objects: JSONObject, **how: Any) -> Any:
    return json.loads(plan(*objects, options=("-o", "json", *how.pop("options", ())), **how).output)


def test_waves_times_and_what_could_stop_it_are_told(plan: Callable[..., Result]) -> None:
    said = plan(with_secret("web:2")).output
    assert "1 object changes; 1 rollout moves; 5 clusters get something" in said
    assert "wave 1     at once  group 0, 2 clusters: c0 c1" in said
    assert "wave 2    after 5m  group 1, 2 clusters: c2 c3" in said
    assert "wave 3   after 10m  group 2, 1 cluster: c4" in said
    assert "takes at least 15m, at most 45m" in said
    assert "p: nobody starts any more when any cluster fails" in said
    assert "p: a cluster that does not work 10m after its turn has failed" in said
    assert "-            - image: web:1" in said
    assert "+            - image: web:2" in said


def test_nothing_that_a_secret_holds_is_in_a_plan_or_a_capture(plan: Callable[..., Result], captured: Path) -> None:
    other = "b3RoZXItd29yZA=="
    for form in ("table", "wide", "json", "yaml"):
        said = plan(with_secret("web:2", other), options=("-o", form)).output
        assert "<hidden, another value>" in said
        for word in (SECRET, other, "secret-word", "other-word"):
            assert word not in said
    assert SECRET not in captured.read_text()
    assert "secret-word" not in captured.read_text()
    assert "redacted" in captured.read_text() or "cmVkYWN0ZWQ" in captured.read_text()


def test_the_document_has_the_fields_that_are_documented(plan: Callable[..., Result]) -> None:
    found = planned(plan, with_secret("web:2"))
    assert (found["apiVersion"], found["kind"], found["changes"], found["refused"]) == (
        "echelon.dev/v1alpha1",
        "ChangePlan",
        True,
        0,
    )
    (rollout,) = found["rollouts"]
    assert [[each["cluster"] for each in wave["clusters"]] for wave in rollout["waves"]] == [
        ["c0", "c1"],
        ["c2", "c3"],
        ["c4"],
    ]
    assert [wave["afterSeconds"] for wave in rollout["waves"]] == [0.0, 300.0, 600.0]
    assert (rollout["atLeastSeconds"], rollout["atMostSeconds"], rollout["ending"]) == (900.0, 2700.0, "complete")
    assert {each["kind"] for each in rollout["obstacles"]} == {"FailureBudget"}
    fields = Path("docs/planning.md").read_text()
    for name in {*found, *rollout, *rollout["waves"][0], *rollout["contents"][0], *found["objects"][0]}:
        assert f"`{name}`" in fields, f"{name} is not documented"


def test_the_exit_code_is_0_when_nothing_changes(plan: Callable[..., Result], captured: Path) -> None:
    stored = read_capture(captured.read_bytes())
    web = next(each for each in stored.objects if each["kind"] == "ManifestWorkReplicaSet")
    assert "nothing changes" in plan(web, code=0).output
    assert planned(plan, web, code=0)["changes"] is False


def test_what_admission_refuses_is_told_and_nothing_is_planned_for_it(plan: Callable[..., Result]) -> None:
    bad = work_set("web:2", {"type": "Progressive", "progressive": {"maxConcurrency": "many"}})
    said = plan(bad, code=1).output
    assert "manifestworkreplicaset shop/web is refused" in said
    assert "maxConcurrency" in said
    found = planned(plan, bad, cluster("c0", **{"in": "no"}), code=1)
    assert [each["change"] for each in found["objects"]] == ["refused", "update"]
    assert found["objects"][0]["refusal"]["code"] == 422


def test_removals_are_red_and_membership_is_told(plan: Callable[..., Result]) -> None:
    said = plan(cluster("c0", **{"in": "no"}), cluster("c5", **{"in": "yes"}), color=True).output
    red = [line for line in said.splitlines() if line.startswith("\x1b[31m")]
    assert any("1 leave group 0: c0" in line for line in red)
    assert any("1 lose their work: c0" in line for line in red)
    found = planned(plan, cluster("c0", **{"in": "no"}), cluster("c5", **{"in": "yes"}))
    (placement,) = found["placements"]
    assert [each["cluster"] for each in placement["coming"]] == ["c5"]
    assert [each["cluster"] for each in placement["going"]] == ["c0"]
    moved = {each["kind"]: each for each in found["rollouts"]}
    assert set(moved) == {"ManifestWorkReplicaSet", "Policy"}  # though no file has them
    for each in moved.values():
        assert (each["removed"], each["revisionBefore"]) == (["c0"], each["revision"])
        assert [one["cluster"] for wave in each["waves"] for one in wave["clusters"]] == ["c5"]


def test_a_placement_that_chooses_nobody_is_not_believed(plan: Callable[..., Result]) -> None:
    nobody = [cluster(f"c{number}", **{"in": "no"}) for number in range(5)]
    found = planned(plan, *nobody)
    for each in found["rollouts"]:
        assert each["removed"] == []
        assert len(each["removalsHeld"]) == 5
        assert "RemovalHeld" in {one["kind"] for one in each["obstacles"] if one["stopsNow"]}


def test_a_plan_that_is_told_what_the_controllers_were_told_removes_as_they_do(plan: Callable[..., Result]) -> None:
    change = [cluster(f"c{number}", **{"in": "no"}) for number in range(3)]

    def removals(*options: str) -> list[list[str]]:
        found = planned(plan, *change, options=options)
        (web,) = (each for each in found["rollouts"] if each["kind"] == "ManifestWorkReplicaSet")
        return [wave["removals"] for wave in web["waves"]]

    assert removals() == [["c0", "c1", "c2"]]
    assert removals("--max-removals", "1") == [["c0"], ["c1"], ["c2"]]
    assert removals("--max-removals", "40%") == [["c0", "c1"], ["c2"]]
    said = plan(*change, options=("--max-removals", "0"), code=2).output
    assert "it must be a number of clusters from 1" in said


def test_a_plan_keeps_what_clusters_that_are_away_have_for_as_long_as_it_is_told(
    plan: Callable[..., Result], captured: Path
) -> None:
    """A cluster that is not heard of leaves a placement that tolerates no such taint."""
    taken = read_capture(captured.read_bytes()).taken
    away = cluster("c0", **{"in": "yes"})
    since = {"effect": "NoSelect", "timeAdded": f"{taken:%Y-%m-%dT%H:%M:%SZ}"}
    away["spec"]["taints"] = [{"key": "cluster.open-cluster-management.io/unreachable", **since}]

    def gone_after(*options: str) -> list[float]:
        found = planned(plan, away, options=options)
        (web,) = (each for each in found["rollouts"] if each["kind"] == "ManifestWorkReplicaSet")
        return [wave["afterSeconds"] for wave in web["waves"] if wave["removals"] == ["c0"]]

    assert gone_after() == [300.0]
    assert gone_after("--removal-grace", "60") == [60.0]
    assert gone_after("--removal-grace", "0") == [0.0]


def test_clusters_in_no_bound_set_get_something_only_where_decisions_are_trusted(
    captured: Path, tmp_path: Path
) -> None:
    """A hub whose placements somebody else decides, and which has no bindings of sets."""
    stored = json.loads(captured.read_text())
    kinds = ("ManagedClusterSetBinding", "ManifestWorkReplicaSet", "ManifestWork", "Policy", "PlacementBinding")
    stored["objects"] = [each for each in stored["objects"] if each["kind"] not in kinds]
    for each in stored["objects"]:
        if each["kind"] == "Placement":
            skip = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}
            each["metadata"]["annotations"] = skip
    fleet, file = tmp_path / "unbound.json", tmp_path / "change.yaml"
    fleet.write_text(json.dumps(stored))
    file.write_text(yaml.safe_dump(documents(work_set("web:1", SLOWLY))[0].body))

    def started(*options: str) -> set[str]:
        arguments = ["plan", "-f", str(file), "--fleet", str(fleet), "-o", "json", *options]
        found = json.loads(CliRunner().invoke(main, arguments).output)
        return {each["cluster"] for wave in found["rollouts"][0]["waves"] for each in wave["clusters"]}

    assert started() == set()
    assert started("--trust-decisions") == {f"c{number}" for number in range(5)}


def test_assumed_failures_end_a_rollout_where_the_budget_says(plan: Callable[..., Result]) -> None:
    found = planned(plan, with_secret("web:2"), options=("--failing", "c2"))
    (rollout,) = found["rollouts"]
    assert [[each["cluster"] for each in wave["clusters"]] for wave in rollout["waves"]] == [["c0", "c1"], ["c2", "c3"]]
    assert (rollout["ending"], rollout["failed"], rollout["waiting"]) == ("stopped", ["c2"], ["c4"])


def test_files_directories_and_input_are_read(captured: Path, tmp_path: Path) -> None:
    directory = tmp_path / "changes"
    (directory / "below").mkdir(parents=True)
    one, two = (each.body for each in documents(with_secret("web:2"), cluster("c5", **{"in": "yes"})))
    (directory / "one.yaml").write_text(yaml.safe_dump(one))
    (directory / "below" / "two.json").write_text(json.dumps(two))
    (directory / "notes.txt").write_text("not a document: [")
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [one, two]})
    base = ["plan", "--fleet", str(captured), "-o", "json"]

    def changed(*options: str, text: str | None = None) -> list[str]:
        result = CliRunner().invoke(main, [*base, *options], input=text)
        assert result.exit_code == 10, result.output
        return [each["kind"] for each in json.loads(result.output)["objects"]]

    assert changed("-f", str(directory)) == ["ManifestWorkReplicaSet"]
    assert sorted(changed("-R", "-f", str(directory))) == ["ManagedCluster", "ManifestWorkReplicaSet"]
    assert changed("-f", "-", text=listed) == ["ManifestWorkReplicaSet", "ManagedCluster"]
    assert changed("-f", str(directory / "one.yaml"), "-f", str(directory / "below")) == [
        "ManifestWorkReplicaSet",
        "ManagedCluster",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no object in"),
        ("a: [", "change.yaml"),
        ("[1]", "a document is no object"),
        ("{kind: Placement, metadata: {name: p}}", "apiVersion is missing"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "ConfigMap has no metadata.name"),
        (BOMB, "its aliases"),
        ("a: &a [*a]", "change.yaml"),
    ],
)
def test_files_that_cannot_be_read_end_with_2(captured: Path, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "change.yaml"
    file.write_text(text)
    result = CliRunner().invoke(main, ["plan", "-f", str(file), "--fleet", str(captured)])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_capture_that_is_none_ends_with_2(tmp_path: Path) -> None:
    file, change = tmp_path / "fleet.yaml", tmp_path / "change.yaml"
    change.write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
    good = {"apiVersion": "echelon.dev/v1alpha1", "kind": "FleetCapture", "capturedAt": "2026-11-18T00:00:00Z"}
    for other, said in (
        ({"kind": "Other"}, "it is no FleetCapture"),
        ({"apiVersion": "echelon.dev/v9"}, "only echelon.dev/v1alpha1 can be read"),
        ({"capturedAt": "yesterday"}, "it must be a time"),
        ({"objects": [{"metadata": {"name": "a"}}]}, "objects[0].apiVersion must be a text"),
        ({"objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}]}, "objects[0].metadata.name"),
        ({"objects": [{**made("v1", "Pod", "a"), "spec": {"echelon.dev/shared": "x"}}]}, "nothing is shared under"),
    ):
        file.write_text(yaml.safe_dump({**good, **other}))
        result = CliRunner().invoke(main, ["plan", "-f", str(change), "--fleet", str(file)])
        assert (result.exit_code, said in result.output) == (2, True), result.output


def test_a_new_set_of_cliques_tells_how_many_pods_come(plan: Callable[..., Result]) -> None:
    container = {"name": "main", "image": "a:1"}
    clique = {"name": "a", "spec": {"roleName": "a", "replicas": 3, "podSpec": {"containers": [container]}}}
    gang = made("grove.io/v1alpha1", "PodCliqueSet", "w", NS, spec={"replicas": 2, "template": {"cliques": [clique]}})
    assert "wave 1     at once  replicas 0, 1: 0 pods go, 6 come" in plan(gang).output
    (rollout,) = planned(plan, gang)["rollouts"]
    assert [(each["replicas"], each["podsGone"], each["podsMade"]) for each in rollout["waves"]] == [([0, 1], [], 6)]


def test_what_could_stop_a_set_of_cliques_is_told(plan: Callable[..., Result]) -> None:
    def clique(name: str, **spec: Any) -> JSONObject:
        pod = {"containers": [{"name": "main", "image": "a:1"}]}
        fields = {"roleName": name, "replicas": 3, "podSpec": pod, **spec}
        return {"name": name, "spec": fields, "rollingUpdate": {"progressDeadline": "7m"}}

    cliques = [clique("a", minAvailable=2), clique("b", minAvailable=1), clique("c")]
    groups = [{"name": "g", "cliqueNames": ["b", "c"], "replicas": 3, "minAvailable": 2}]
    for each in cliques[1:]:
        del each["rollingUpdate"]  # which is their group's
    template = {"cliques": cliques, "podCliqueScalingGroups": groups}

    def told(**spec: Any) -> str:
        gang = made("grove.io/v1alpha1", "PodCliqueSet", "w", NS, spec={"replicas": 1, "template": template, **spec})
        return " ".join(plan(gang).output.split())

    rolling = told()
    assert "starts only when 10 of its pods can be scheduled together" in rolling  # 2, and twice 1 + 3
    assert "not ready 10m after it was replaced is given up" in rolling
    assert "until somebody deletes pods" not in rolling
    on_delete = told(updateStrategy={"type": "OnDelete"})
    assert "until somebody deletes pods" in on_delete
    assert "given up" not in on_delete


def test_explain_takes_the_same_files_and_shows_who_comes_and_goes(captured: Path, tmp_path: Path) -> None:
    file = tmp_path / "change.yaml"
    changes = documents(cluster("c0", **{"in": "no"}), cluster("c5", **{"in": "yes"}))
    file.write_text(yaml.safe_dump_all(each.body for each in changes))
    base = ["placement", "explain", "p", "-n", NS, "-f", str(file), "--fleet", str(captured)]
    result = CliRunner().invoke(main, base)
    assert result.exit_code == 0, result.output
    chosen = {line.split()[0]: line.split()[1] for line in result.output.splitlines()[1:7]}
    assert chosen == {f"c{number}": "no" if number == 0 else "yes" for number in range(6)}
    assert "1 leave group 0: c0" in result.output
    assert "1 come to" in result.output
    one = CliRunner().invoke(main, [*base, "--cluster", "c9"])
    assert (one.exit_code, "c9 not found" in one.output) == (1, True)


def test_a_plan_with_a_hub_writes_nothing() -> None:
    counted: list[str] = []

    async def life() -> None:
        labels = {f"c{number}": {"in": "yes"} for number in range(3)}
        everywhere: JSONObject = {"type": "All"}
        async with plan_world([*fleet(labels), work_set("web:1", everywhere), *policy("1", everywhere)]) as here:
            await here.rehearsal.start_controllers()
            await asyncio.sleep(600)
            change = documents(
                work_set("web:2", SLOWLY), policy("2", SLOWLY)[0], cluster("c3"), made("v1", "Namespace", "n")
            )
            here.rehearsal.hub.store.on_commit(lambda each: counted.append(str(each.entry.key)))
            revision = here.rehearsal.hub.store.revision
            await here.plan(change, Assumptions(timedelta()))
            await here.plan_with_hub(change, Assumptions(timedelta()))
            assert (counted, here.rehearsal.hub.store.revision) == ([], revision)

    loop = loop_of(1)
    loop.run_until_complete(life())
    loop.close()


def test_the_commands_of_the_page_print_what_it_shows(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path("docs/planning.md").read_text()
    change = documents(work_set("web:2", SLOWLY), cluster("c0", **{"in": "no"}))
    (tmp_path / "change.yaml").write_text(yaml.safe_dump_all(each.body for each in change))
    (tmp_path / "fleet.json").write_bytes(captured.read_bytes())
    monkeypatch.chdir(tmp_path)
    ran = 0
    for block in re.findall(r"```console\n\$ echelon ((?:plan|placement) .*?)```", page, re.DOTALL):
        command, *shown = block.splitlines()
        said = CliRunner().invoke(main, command.split()).output.splitlines()
        ran += 1
        for line in shown:
            assert line in said, (command, line, said)
    assert ran == 2
