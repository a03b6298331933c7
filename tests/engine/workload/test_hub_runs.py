"""What shows that something on the hub runs a template, and what does not."""

import pytest

from echelon.api.base import JSONObject
from echelon.engine.workload.hub_runs import hub_runs
from tests.engine.workload.clusters import template

OBSERVED: JSONObject = {"f:status": {"f:observedGeneration": {}}}


def seen(*managers: str, fields: JSONObject | None = None, **status: object) -> JSONObject:
    entries = [{"manager": each, "subresource": "status", "fieldsV1": fields or OBSERVED} for each in managers]
    return {**template(metadata={"managedFields": entries}), "status": {"observedGeneration": 1, **status}}


def test_a_template_that_nobody_looks_at_is_not_run() -> None:
    assert hub_runs(template()) == ""
    assert hub_runs({**template(), "status": {"replicas": 3}}) == ""


@pytest.mark.parametrize("manager", ["kube-controller-manager", "kruise-manager"])
@pytest.mark.parametrize("propagated", [True, False])
def test_a_status_under_the_name_of_a_controller_is_a_sign(manager: str, propagated: bool) -> None:
    assert manager in hub_runs(seen("echelon", manager), propagated=propagated)
    conditions: JSONObject = {"f:status": {"f:conditions": {}}}
    assert manager in hub_runs(seen(manager, fields=conditions, observedGeneration=0), propagated=propagated)


@pytest.mark.parametrize("manager", ["echelon", "karmada-controller-manager"])
def test_sums_over_clusters_are_no_sign(manager: str) -> None:
    assert hub_runs(seen(manager, currentRevision="web-1"), propagated=True) == ""
    assert hub_runs(seen(manager)) == ""


def test_what_nobody_sums_up_is_a_sign_whoever_is_said_to_have_written_it() -> None:
    fields: JSONObject = {"f:status": {"f:observedGeneration": {}, "f:conditions": {}}}
    assert hub_runs(seen("echelon", fields=fields), propagated=True)
    assert hub_runs({**seen("echelon", fields=fields), "kind": "Job"}, propagated=True) == ""


def test_other_fields_of_others_are_no_sign() -> None:
    assert hub_runs(seen("echelon", "kubectl", fields={"f:spec": {"f:replicas": {}}}), propagated=True) == ""


def test_without_names_a_status_is_a_sign_only_before_anything_was_sent_or_where_nobody_sums_it_up() -> None:
    assert hub_runs(seen())
    assert hub_runs(seen(), propagated=True) == ""
    assert hub_runs(seen(conditions=[{"type": "Available"}]), propagated=True)
    job = {**seen(conditions=[{"type": "Complete"}]), "kind": "Job"}
    assert hub_runs(job, propagated=True) == ""


def test_what_the_template_owns_on_the_hub_is_a_sign() -> None:
    def owned(uid: str, *, controller: bool = True) -> JSONObject:
        owners = [{"uid": uid, "controller": controller}]
        return {"kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": owners}}

    assert "ReplicaSet web-1" in hub_runs(template(), owned=[owned("another"), owned("uid-web")])
    assert hub_runs(template(), owned=[owned("another"), owned("uid-web", controller=False)]) == ""


@pytest.mark.parametrize(
    "nonsense", [{"status": []}, {"metadata": {"managedFields": "no"}}, {"status": {"conditions": 0}}]
)
def test_nonsense_is_no_sign_and_no_error(nonsense: JSONObject) -> None:
    assert hub_runs({**template(), **nonsense}) == ""
