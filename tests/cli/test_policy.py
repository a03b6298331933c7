"""`echelon policy`: how policies get to clusters, what these say, and what enforcing would change there."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.policy_hub import NAME, PolicyHub, connected, echelon, furnish
from tests.controllers.policy_world import template
from tests.controllers.work_world import progressive
from tests.hub.conftest import HubProcess

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.policy import GROUP
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.engine.rollout import control


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    hub.start()
    connected(hub, furnish)
    yield hub
    assert hub.stop() == 0


def create(world: PolicyHub, kind: Kind[Any], name: str, **body: Any) -> None:
    wire = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **body}
    world.run(lambda client: client.create(kind.untyped(), wire, world.namespace))


def change(name: str, diff: str = "@@ -1 +1 @@\n-a: 1\n+a: 2", kind: str = "Update") -> JSONObject:
    where = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name}
    return {**where, "change": kind, "diff": diff}


def held(hub: HubProcess, *clusters: str, **spec: Any) -> PolicyHub:
    """Return a policy that is held everywhere."""
    world = PolicyHub(hub, clusters, strategy=progressive(), **spec)
    world.patch({"metadata": {"annotations": dict(control.pause())}})
    world.reconcile()
    return world


def test_a_list_tells_action_compliance_rollout_and_clusters(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a", "b", "c"], strategy=progressive())
    world.reconcile()
    world.report(world.clusters[0])
    world.report(world.clusters[1], compliant="NonCompliant")
    world.reconcile()
    header, line = world.echelon("policy", "list").splitlines()
    assert header.split() == ["NAME", "ACTION", "COMPLIANCE", "ROLLOUT", "C/N/P/U", "DONE"]
    # The second cluster was written for its release, and what it said before is about something else.
    assert line.split() == [NAME, "enforce", "NonCompliant", "Progressing", "1/1/0/1", "1/3"]
    assert len(line) <= 80
    everywhere = json.loads(world.echelon("policy", "list", "-A", "-o", "json"))
    assert f"{world.namespace}.{NAME}" not in [each["name"] for each in everywhere], "replicas are no policies"
    found = next(each for each in everywhere if each["namespace"] == world.namespace)
    assert found["progress"] == {"done": 1, "total": 3}
    assert found["clusters"] == {"compliant": 1, "noncompliant": 1, "pending": 0, "unknown": 1}


def test_a_policy_is_shown_with_its_clusters_and_templates(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a", "b", "c"], strategy=progressive())
    world.reconcile()
    first, second, third = world.clusters
    world.report(first, compliant="NonCompliant", message="NonCompliant; violation - configmaps [demo] not found")
    world.report(second)
    world.reconcile()
    shown = world.echelon("policy", "show", NAME).splitlines()
    assert shown[0].startswith(f"{world.namespace}/{NAME}  enforce  revision 1 (")
    assert shown[1] == "compliance  NonCompliant: 1 compliant, 1 unknown, 1 noncompliant"
    assert shown[2] == "rollout     Failed: stopped, 0 of 3 done, 1 failed, 2 waiting"
    tree = shown[shown.index("placed by") :]
    assert tree == [
        "placed by",
        "└─ b → placement p: 3 clusters",
        "clusters",
        f"├─ ✖ {first}  NonCompliant, Failed",
        "│  └─ ✖ ConfigurationPolicy demo",
        "│       NonCompliant; violation - configmaps [demo] not found",
        "├─ 1 more: Compliant, ToApply, held",
        "└─ 1 more: Unknown, ToApply, held, not reported on yet",
    ]
    everything = world.echelon("policy", "show", NAME, "-o", "wide")
    assert f"├─ · {third}  Unknown, ToApply, held, not reported on yet\n└─ ✔ {second}" in everything
    assert "   └─ ✔ ConfigurationPolicy demo  Compliant; it is so\n" in everything
    assert max(map(len, shown)) <= 80
    document = json.loads(world.echelon("policy", "show", NAME, "-o", "json"))
    assert document["rolloutStatus"] == document["status"]["rolloutStatus"] == "Failed"
    told = {each["clustername"]: each for each in document["perCluster"]}
    assert told[third]["replica"] == {"rolloutStatus": "ToApply", "held": True, "reported": False}
    assert told[first]["templates"][0]["message"].startswith("NonCompliant; violation")


def test_two_statuses_that_differ_are_both_shown(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a", "b"], strategy=progressive())
    world.reconcile()
    world.report(world.clusters[0])
    shown = world.echelon("policy", "show", NAME, "-o", "wide")
    assert f"{world.clusters[0]}  Compliant, Progressing (its replica says Succeeded)" in shown


@pytest.mark.parametrize(
    ("strategy", "action", "effect"),
    [
        (None, "inform", "enforce on a-"),
        (None, "enforce", "enforce: no effect, the policy enforces everywhere"),
        (progressive(), "inform", "enforce: no effect: the policy has a rolloutStrategy other than All"),
    ],
)
def test_the_ways_of_a_policy_say_what_they_change(hub: HubProcess, strategy: Any, action: str, effect: str) -> None:
    world = PolicyHub(hub, ["a", "b"], strategy=strategy, remediationAction=action)
    ref = {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "p"}
    excluded = {"policyName": NAME, "clusterNames": [world.clusters[1]]}
    create(world, POLICY_SET, "s", spec={"policies": [NAME], "exclusions": [excluded]})
    by_set = [{"apiGroup": GROUP, "kind": "PolicySet", "name": "s"}]
    create(
        world,
        PLACEMENT_BINDING,
        "c",
        placementRef=ref,
        subjects=by_set,
        bindingOverrides={"remediationAction": "enforce"},
        subFilter="restricted",
    )
    directly = [{"apiGroup": GROUP, "kind": "Policy", "name": NAME}]
    create(world, PLACEMENT_BINDING, "d", placementRef={**ref, "name": "q"}, subjects=directly)
    shown = world.echelon("policy", "show", NAME)
    assert "├─ b → placement p: 2 clusters\n" in shown
    assert "├─ c → placement p, by policy set s, restricted: 1 cluster\n" in shown
    assert f"│    excludes {world.clusters[1]}\n│    {effect}" in shown
    assert "└─ d → placement q: missing\n" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_diff_shows_clusters_that_would_change_alike_together(hub: HubProcess) -> None:
    world = held(hub, "a", "b", "c", "d", "e")
    a, b, c, d, e = world.clusters
    world.report(a, b, compliant="NonCompliant", changes=[change("one"), change("two", "", "Create")])
    world.report(c, compliant="NonCompliant", changes=[change("one", "@@ -1 +1 @@\n-a: 0\n+a: 2")])
    world.report(d)
    shown = world.echelon("policy", "diff", NAME, code=1)
    assert shown.splitlines() == [
        f"2 clusters would change: {a}, {b}",
        "  demo",
        "    update ConfigMap default/one",
        "      @@ -1 +1 @@",
        "      -a: 1",
        "      +a: 2",
        "    create ConfigMap default/two",
        "      (without a diff: there was no room for it)",
        f"1 cluster would change: {c}",
        "  demo",
        "    update ConfigMap default/one",
        "      @@ -1 +1 @@",
        "      -a: 0",
        "      +a: 2",
        f"1 cluster would not change: {d}",
        f"1 cluster yet to report on the present policy: {e}",
    ]
    assert c not in world.echelon("policy", "diff", NAME, "--cluster", a, code=1)
    assert f"would not change: {d}" in world.echelon("policy", "diff", NAME, "--cluster", d)
    assert "yet to report" in world.echelon("policy", "diff", NAME, "--cluster", e, code=11)
    document = json.loads(world.echelon("policy", "diff", NAME, "-o", "json", code=1))
    assert [each["clusters"] for each in document["wouldChange"]] == [[a, b], [c]]
    assert document["notKnown"][0]["clusters"] == [e]
    assert "is no cluster with a replica" in world.echelon("policy", "diff", NAME, "--cluster", "nobody", code=5)


def test_a_diff_is_about_the_present_policy_only(hub: HubProcess) -> None:
    world = held(hub, "a")
    world.report(world.clusters[0], compliant="NonCompliant", changes=[change("one")])
    world.patch({"spec": {"policy-templates": [template("2")]}})
    assert "yet to get the present policy to look at" in world.echelon("policy", "diff", NAME, code=11)
    world.reconcile()
    assert "yet to report on the present policy" in world.echelon("policy", "diff", NAME, code=11)
    world.report(world.clusters[0])
    assert "would not change" in world.echelon("policy", "diff", NAME)


def test_a_list_of_changes_that_was_cut_is_said_to_be(hub: HubProcess) -> None:
    world = held(hub, "a", "b")
    a, b = world.clusters
    world.report(a, compliant="NonCompliant", changes=[change(str(number)) for number in range(20)])
    more = "NonCompliant; violation - x; 3 more changes are pending than are listed"
    world.report(b, compliant="NonCompliant", message=more, changes=[change("0")])
    assert world.echelon("policy", "diff", NAME, code=1).count("demo would change more than") == 2


def test_what_enforcing_does_not_mend_is_told_and_what_cannot_be_known_is_not_taken_for_nothing(
    hub: HubProcess,
) -> None:
    certificate = {"apiVersion": f"{GROUP}/v1", "kind": "CertificatePolicy", "metadata": {"name": "certs"}, "spec": {}}
    world = held(hub, "a", "b", "c")
    a, b, c = world.clusters
    world.report(a, compliant="NonCompliant")
    world.report(b, compliant="Pending")
    shown = world.echelon("policy", "diff", NAME, code=11)
    assert f"  1 cluster in violation of the policy, which enforcing does not mend: {a}" in shown
    assert "yet to evaluate template demo, which is Pending" in shown
    other = held(hub, "a", **{"policy-templates": [{"objectDefinition": certificate}]})
    other.report(other.clusters[0], compliant="NonCompliant")
    assert "with a CertificatePolicy as template certs, which does not say" in " ".join(
        other.echelon("policy", "diff", NAME, code=11).split()
    )
    assert c in shown


@pytest.mark.parametrize(
    ("spec", "said"),
    [({"remediationAction": "inform"}, "only informs"), ({"disabled": True}, "is disabled"), ({}, "is on no cluster")],
)
def test_where_nobody_waits_nothing_would_change(hub: HubProcess, spec: Any, said: str) -> None:
    world = PolicyHub(hub, ["a"], strategy=progressive(), **spec)
    if spec:
        world.reconcile()
    assert said in world.echelon("policy", "diff", NAME)


def test_a_cluster_that_is_enforced_is_not_asked_what_would_change(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], strategy=progressive())
    world.finish()
    shown = world.echelon("policy", "diff", NAME)
    assert f"1 cluster enforced already: {world.clusters[0]}" in shown
    assert "is held nowhere" in shown


def test_a_replica_is_not_shown_as_a_policy(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], strategy=None)
    world.reconcile()
    said = world.echelon("policy", "show", f"{world.namespace}.{NAME}", namespace=world.clusters[0], code=1)
    assert f"name the policy: {NAME} -n {world.namespace}" in said


def test_a_namespace_without_policies_has_none(hub: HubProcess) -> None:
    assert "No policies found in namespace default." in echelon(hub, "policy", "list", "-n", "default")
