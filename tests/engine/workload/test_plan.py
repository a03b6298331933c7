"""A plan for a binding, as a value: what is written, in which order, and on which condition."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.karmada import (
    RESOURCE_BINDING,
    AggregatedStatusItem,
    ObjectReference,
    ResourceBinding,
    ResourceBindingSpec,
    TargetCluster,
    Work,
)
from echelon.api.meta import ObjectMeta
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, RolloutLedger, RolloutLedgerSpec
from echelon.engine.align import ClusterLedger, Ledger, MemberView, Round, Workload, align
from echelon.engine.plan import Create, Patch, Plan, Together, Write
from echelon.engine.rollout.control import PAUSED
from echelon.engine.workload import alignment
from echelon.engine.workload.manifests import base_of, binding_notes
from echelon.engine.workload.names import ALIGN, BINDING_FINALIZER, MADE_BY, POLICY_NAME, PROPAGATION, PUSH_ID
from echelon.engine.workload.overriding import Overridden
from echelon.engine.workload.plan import plan
from echelon.engine.workload.template_status import template_status
from echelon.engine.workload.view import StoredLedger, WorkloadView, read_ledger
from echelon.engine.workload.works import WorkView, read_work

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def template(image: str = "v1", generation: int = 1, **status: Any) -> JSONObject:
    strategy = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": image}]}}
    meta = {"name": "web", "namespace": "shop", "uid": "t", "generation": generation, "resourceVersion": "7"}
    spec = {"replicas": 5, "strategy": strategy, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec, "status": status}


def binding(clusters: Mapping[str, int], **notes: str) -> ResourceBinding:
    meta = ObjectMeta(
        name="web-deployment",
        namespace="shop",
        uid="b",
        generation=1,
        resource_version="3",
        finalizers=[BINDING_FINALIZER],
        annotations=notes,
    )
    targets = [TargetCluster(name=name, replicas=replicas) for name, replicas in clusters.items()]
    resource = ObjectReference(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")
    return ResourceBinding(metadata=meta, spec=ResourceBindingSpec(resource=resource, clusters=targets))


def seen(clusters: Mapping[str, int], **fields: Any) -> WorkloadView:
    notes = fields.pop("notes", {})
    return WorkloadView(binding(clusters, **notes), fields.pop("template", template()), DEPLOYMENT, **fields)


def works_of(found: Plan) -> list[Write]:
    together = [each for each in found.actions if isinstance(each, Together)]
    return [each for one in together for each in one.actions if isinstance(each, Create | Patch)]


def sent(found: Plan) -> dict[str, JSONObject]:
    """Return the manifests that a plan sends, by cluster."""
    return {
        each.namespace.removeprefix("karmada-es-"): each.body["spec"]["workload"]["manifests"][0]
        for each in works_of(found)
        if isinstance(each, Create | Patch) and "workload" in each.body["spec"]
    }


def stored(found: Plan) -> StoredLedger:
    """Return the ledger that a plan stores."""
    (write,) = [
        each
        for each in found.actions
        if isinstance(each, Create | Patch) and each.kind is ROLLOUT_LEDGER and "spec" in each.body
    ]
    meta = ObjectMeta(name="web-deployment", namespace="shop", uid="l", resource_version="9")
    return read_ledger(RolloutLedger(metadata=meta, spec=msgspec.convert(write.body["spec"], RolloutLedgerSpec)))


def reported(found: Plan, version: int = 1) -> dict[str, WorkView]:
    """Return the works that a plan sends, with the reports of members that have done all that they were told."""
    works = {}
    for cluster, manifest in sent(found).items():
        replicas = manifest["spec"]["replicas"]
        push = int(manifest["metadata"]["annotations"][PUSH_ID])
        view = MemberView(cluster, version, push, version, version, *(replicas,) * 4, told=replicas, settled=True)
        status = {"replicas": replicas, "snapshot": msgspec.to_builtins(view)}
        meta = {
            "name": "web-x",
            "namespace": f"karmada-es-{cluster}",
            "uid": cluster,
            "resourceVersion": "1",
            "generation": version,
            "annotations": binding_notes(binding({})),
        }
        applied = {
            "type": "Applied",
            "status": "True",
            "reason": "AppliedSuccessful",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": version,
        }
        identifier = {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
        statuses = [{"identifier": identifier, "status": status, "health": "Healthy"}]
        body = {
            "metadata": meta,
            "spec": {"workload": {"manifests": [manifest]}},
            "status": {"conditions": [applied], "manifestStatuses": statuses},
        }
        works[cluster] = read_work(msgspec.convert(body, Work))
    return works


def settled(clusters: Mapping[str, int], **fields: Any) -> WorkloadView:
    """Return a workload whose clusters have what they should have."""
    first = plan(seen(clusters), NOW)
    return seen(clusters, ledger=stored(first), works=reported(first), **fields)


def test_the_revision_and_the_ledger_come_before_the_works_and_what_is_told_after_them() -> None:
    found = plan(seen({"c1": 2, "c2": 3}), NOW)
    kinds = [each.kind.kind if isinstance(each, Create | Patch) else type(each).__name__ for each in found.actions]
    assert kinds == ["ControllerRevision", "Emit", "RolloutLedger", "Together", "ResourceBinding", "RolloutLedger"]
    assert sorted(sent(found)) == ["c1", "c2"]


def test_a_plan_is_a_function_of_what_was_seen() -> None:
    view = settled({"c1": 2, "c2": 3}, template=template("v2", 2))
    assert plan(view, NOW) == plan(view, NOW)


@pytest.mark.parametrize(("image", "rounds"), [("v1", 1), ("v2", 2)])
def test_a_round_is_decided_twice_only_if_the_second_is_another_one(
    image: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, decided = settled({"c1": 2, "c2": 3}, template=template(image, 2)), []

    def counting(workload: Workload, *rest: Any) -> Round:
        decided.append(workload)
        return align(workload, *rest)

    monkeypatch.setattr(alignment, "align", counting)
    plan(view, NOW)
    assert len(decided) == rounds


def test_the_ledger_is_written_only_if_it_is_what_was_read() -> None:
    found = plan(settled({"c1": 2, "c2": 3}, template=template("v2", 2)), NOW)
    (write,) = [each for each in found.actions if isinstance(each, Patch) and "content" in each.body.get("spec", {})]
    assert (write.kind, write.resource_version, write.uid) == (ROLLOUT_LEDGER, "9", "l")


def test_what_was_granted_and_not_sent_is_sent_with_the_same_ids() -> None:
    before = settled({"c1": 2, "c2": 3}, template=template("v2", 2))
    first = plan(before, NOW)
    again = plan(replace(before, ledger=stored(first)), NOW)
    assert sent(again) == sent(first)
    assert [each for each in again.actions if isinstance(each, Patch) and "content" in each.body.get("spec", {})] == []


def test_a_template_that_changed_before_its_push_was_sent_never_shares_an_id_with_it() -> None:
    before = settled({"c1": 2, "c2": 3}, template=template("v2", 2))
    first = plan(before, NOW)
    other = plan(replace(before, ledger=stored(first), works=reported(first, 2), template=template("v2", 3)), NOW)
    for cluster, manifest in sent(other).items():
        old = sent(first)[cluster]["metadata"]["annotations"][PUSH_ID]
        assert manifest["metadata"]["annotations"][PUSH_ID] != old


def test_pods_that_stay_although_nobody_wants_them_let_no_others_be_made() -> None:
    """All pods are to move while the rollout is paused: the new cluster gets none until the old one has lost some."""
    view = replace(settled({"c1": 5}), binding=binding({"c2": 5}, **{PAUSED: "true"}))
    found = plan(view, NOW)
    assert sum(each["spec"]["replicas"] for each in sent(found).values()) == 0


def test_pods_of_a_cluster_that_may_not_be_born_yet_are_missing_all_the_same() -> None:
    """Two pods are to move to a new cluster while the rollout is paused, and nobody knows what was complete last."""
    view = settled({"c1": 5})
    assert view.ledger is not None
    assert view.ledger.ledger is not None
    forgotten = replace(view.ledger, ledger=msgspec.structs.replace(view.ledger.ledger, stable="?"))
    found = plan(replace(view, ledger=forgotten, binding=binding({"c1": 3, "c4": 2}, **{PAUSED: "true"})), NOW)
    (status,) = [each for each in found.actions if isinstance(each, Patch) and each.kind is ROLLOUT_LEDGER][-1:]
    assert status.body["status"]["budget"]["total"] == 5
    assert {name: each["spec"]["replicas"] for name, each in sent(found).items()} == {"c1": 4}


def test_an_override_that_touches_a_budget_writes_nothing() -> None:
    def override(manifest: JSONObject, cluster: str) -> Overridden:
        return Overridden(manifest, ("p",), ("spec.replicas",) if cluster == "c2" else ())

    found = plan(seen({"c1": 2, "c2": 3}, override=override), NOW)
    assert found.actions == ()
    assert found.status is not None
    said = {each["type"]: each for each in found.status.body["status"]["conditions"]}
    assert said["RolloutAligned"]["reason"] == "OverrideConflict"
    assert said["RolloutAligned"]["message"].endswith(": c2: spec.replicas is 5 by p")


def test_each_cluster_gets_its_own_manifest() -> None:
    def override(manifest: JSONObject, cluster: str) -> Overridden:
        pods = {"spec": {"containers": [{"name": "x", "image": f"{cluster}/v1"}]}}
        return Overridden({**manifest, "spec": {**manifest["spec"], "template": pods}})

    found = sent(plan(seen({"c1": 2, "c2": 3}, override=override), NOW))
    images = {name: each["spec"]["template"]["spec"]["containers"][0]["image"] for name, each in found.items()}
    assert images == {"c1": "c1/v1", "c2": "c2/v1"}


def test_ids_go_on_above_what_works_carry() -> None:
    view = settled({"c1": 2, "c2": 3})
    (work, *_) = view.works.values()
    meta = work.manifest["metadata"]
    notes = {**meta["annotations"], PUSH_ID: "40"}
    high = replace(work, push_id=40, manifest={**work.manifest, "metadata": {**meta, "annotations": notes}})
    found = plan(replace(view, works={**view.works, high.cluster: high}), NOW)
    ledger = stored(found).ledger
    assert ledger is not None
    assert ledger.next_push > 41
    assert int(sent(found)[high.cluster]["metadata"]["annotations"][PUSH_ID]) > 40


@pytest.mark.parametrize(
    ("notes", "adopts", "ours"),
    [
        ({}, False, True),
        ({POLICY_NAME: "p"}, False, False),
        ({POLICY_NAME: "p"}, True, True),
        ({POLICY_NAME: "p", MADE_BY: PROPAGATION}, False, True),
        ({"clusterpropagationpolicy.karmada.io/permanent-id": "x"}, False, False),
    ],
)
def test_whose_bindings_are_carried_out(*, notes: dict[str, str], adopts: bool, ours: bool) -> None:
    assert seen({"c1": 1}, notes=notes, adopts=adopts).is_ours is ours


def test_what_belongs_to_the_hub_is_not_sent() -> None:
    found = base_of(
        {
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "uid": "1",
                "finalizers": ["x"],
                "ownerReferences": [],
                "managedFields": [],
                "annotations": {"deployment.kubernetes.io/revision": "3", "echelon.dev/paused": "true", "a": "b"},
            },
            "status": {"replicas": 3},
        }
    )
    assert found == {"kind": "Deployment", "metadata": {"name": "web", "annotations": {"a": "b"}}}


def status_of(generation: int, rendered: int) -> JSONObject:
    return {
        "replicas": 2,
        "updatedReplicas": 1,
        "availableReplicas": 2,
        "generation": 4,
        "observedGeneration": generation,
        "resourceTemplateGeneration": rendered,
    }


@pytest.mark.parametrize(
    ("observed", "rendered", "told"),
    [(4, 2, 2), (3, 2, None), (4, 1, None)],
)
def test_a_template_is_observed_when_every_cluster_has_observed_it(
    observed: int, rendered: int, told: int | None
) -> None:
    view = settled({"c1": 2, "c2": 2}, template=template("v2", 2))
    works = {name: replace(each, status=status_of(4, 2)) for name, each in view.works.items()}
    works["c2"] = replace(works["c2"], status=status_of(observed, rendered))
    found = template_status(replace(view, works=works), view.targets)
    assert found is not None
    assert found.body["status"].get("observedGeneration") == told
    assert found.body["status"]["replicas"] == 4
    assert found.body["status"]["updatedReplicas"] == 2


def test_what_nobody_knew_of_a_cluster_ends_with_its_work() -> None:
    """A ledger was lost while a cluster was being left: nobody will ever report for it."""
    view = settled({"c1": 2, "c2": 3})
    lost = plan(replace(view, ledger=None, works={**view.works, "c9": replace(view.works["c1"], cluster="c9")}), NOW)
    ledger = stored(lost)
    assert ledger.ledger is not None
    unknown = {"c9": ClusterLedger.unknown(None, 5)}
    charged = msgspec.structs.replace(ledger.ledger, clusters={**ledger.ledger.clusters, **unknown})
    after = plan(replace(view, ledger=replace(ledger, ledger=charged)), NOW)
    found = stored(after).ledger
    assert found is not None
    assert sorted(found.clusters) == ["c1", "c2"]


def test_works_that_a_status_tells_of_are_waited_for_when_the_ledger_is_gone() -> None:
    view = replace(settled({"c1": 2, "c2": 3}), ledger=None, works={})
    told = [AggregatedStatusItem(cluster_name="c1")]
    status = msgspec.structs.replace(view.binding.status, aggregated_status=told)
    known = replace(view, binding=msgspec.structs.replace(view.binding, status=status))
    waiting = plan(replace(known, works_behind=True), NOW)
    assert (waiting.actions, waiting.look_again_after is not None) == ((), True)
    assert sorted(sent(plan(known, NOW))) == ["c1", "c2"]


def test_a_lost_ledger_raises_nobody() -> None:
    view = replace(settled({"c1": 2, "c2": 3}, template=template("v2", 2)), ledger=None)
    found = plan(view, NOW)
    assert sorted(sent(found)) == ["c1", "c2"]  # or nobody would ever report a new push
    for cluster, manifest in sent(found).items():
        had = view.works[cluster].manifest["spec"]
        assert manifest["spec"]["paused"] or manifest["spec"] == had
    ledger = stored(found).ledger
    assert isinstance(ledger, Ledger)
    assert all(each.is_unknown for each in ledger.clusters.values())


def test_what_pods_of_a_few_clusters_say_is_told_with_the_progress_and_with_a_stall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = settled({f"c{number}": 1 for number in range(1, 6)}, template=template("v2", 2))
    works = {name: replace(work, status={**(work.status or {}), "cause": "Boom"}) for name, work in view.works.items()}

    def stalled(*given: Any) -> Round:
        return replace(align(*given), stalled_since=NOW.timestamp())

    monkeypatch.setattr(alignment, "align", stalled)
    found = plan(replace(view, works=works), NOW)
    (status,) = [
        each.body["status"]
        for each in found.actions
        if isinstance(each, Patch) and "status" in each.body and "aggregatedStatus" in each.body["status"]
    ]
    messages = {each["type"]: each["message"] for each in status["conditions"]}
    assert messages["RolloutProgressing"] == "0 of 5 clusters are complete; c1: Boom; c2: Boom; c3: Boom; and 2 more"
    assert messages["RolloutStalled"].endswith("since 2026-01-01T00:00:00Z; c1: Boom; c2: Boom; c3: Boom; and 2 more")
    assert [each["status"]["cause"] for each in status["aggregatedStatus"]] == ["Boom"] * 5


def said_of_progress(found: Plan) -> tuple[str, str, str]:
    """Return the status, the reason and the message of what a plan says of the progress."""
    (status,) = [
        each.body["status"]
        for each in found.actions
        if isinstance(each, Patch) and each.kind is RESOURCE_BINDING and "status" in each.body
    ]
    (said,) = [each for each in status["conditions"] if each["type"] == "RolloutProgressing"]
    return said["status"], said["reason"], said["message"]


@pytest.mark.parametrize("aligned", [True, False])
def test_a_workload_is_not_complete_while_nobody_is_sure_that_a_cluster_is_to_lose_it(*, aligned: bool) -> None:
    body = template()
    if not aligned:
        body["metadata"]["annotations"] = {ALIGN: "false"}
    before = settled({"c1": 5, "c2": 0})
    alone = replace(before, template=body, binding=binding({"c1": 5}))
    status, reason, message = said_of_progress(plan(replace(alone, stale=frozenset({"c2"})), NOW))
    assert (status, reason) == ("True", "Progressing")
    assert message.endswith("; no longer named, and not removed yet: c2")
    away = plan(replace(alone, spared={"c2": NOW + timedelta(minutes=5)}), NOW)
    assert "not removed" not in said_of_progress(away)[2], "who may come back holds nothing up"
    assert not aligned or said_of_progress(away)[:2] == ("False", "Complete")
