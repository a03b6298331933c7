"""When an object has drifted from its manifest, how it is told, and how long nobody is fought with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.manifest_config import IgnoreField, ManifestUpdateStrategy, ServerSideApplyConfig
from echelon.engine.work.drift import LAST_PAUSE_SECONDS, NO_REPAIR, QUIET_SECONDS, Drift, drifted
from echelon.engine.work.reporting import Absent, Applied, ObservedManifest, Present, report
from echelon.engine.work.updating import DesiredObject, last_applied_of
from tests.engine.work.test_updating import OWNER, wanted
from tests.engine.work.works import at, conditions, config, meta, rule, stamp, statuses, web, work

UPDATE, CREATE_ONLY, READ_ONLY, APPLY = (
    ManifestUpdateStrategy(type=kind) for kind in ("Update", "CreateOnly", "ReadOnly", "ServerSideApply")
)
IGNORING = ManifestUpdateStrategy(
    type="ServerSideApply",
    server_side_apply=ServerSideApplyConfig(ignore_fields=[IgnoreField(json_paths=[".spec.replicas"])]),
)


def a_deployment(**spec: object) -> DesiredObject:
    return wanted(DEPLOYMENT, spec={"paused": True, **spec}, metadata={"labels": {"app": "web"}})


def as_served(**spec: object) -> JSONObject:
    """What a server makes of the deployment: it fills in a field."""
    filled = {"paused": True, "replicas": 1, "revisionHistoryLimit": 10, **spec}
    metadata = {"name": "x", "uid": "u", "labels": {"app": "web", "by": "other"}, "ownerReferences": [OWNER]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": filled, "status": {"x": 1}}


def differs(strategy: ManifestUpdateStrategy, asked: DesiredObject, then: JSONObject, now: JSONObject | None) -> bool:
    return drifted(asked, strategy, now, last_applied_of(asked.manifest, then))


@pytest.mark.parametrize("strategy", [UPDATE, APPLY])
def test_what_the_manifest_says_is_what_counts(strategy: ManifestUpdateStrategy) -> None:
    asked, then = a_deployment(replicas=3), as_served(replicas=3)
    assert not differs(strategy, asked, then, then)
    assert not differs(strategy, asked, then, {**then, "status": {"readyReplicas": 3}})
    assert differs(strategy, asked, then, as_served(replicas=1))
    assert differs(strategy, asked, then, as_served(replicas=3, paused=False))
    unlabelled = {**then, "metadata": {**then["metadata"], "labels": {}}}
    assert differs(strategy, asked, then, unlabelled)
    disowned = {**then, "metadata": {**then["metadata"], "ownerReferences": []}}
    assert differs(strategy, asked, then, disowned)
    assert differs(strategy, asked, then, None)


@pytest.mark.parametrize("strategy", [UPDATE, APPLY])
def test_replicas_that_it_does_not_say_are_others(strategy: ManifestUpdateStrategy) -> None:
    assert not differs(strategy, a_deployment(), as_served(), as_served(replicas=7))
    assert differs(strategy, a_deployment(replicas=0), as_served(replicas=0), as_served(replicas=7))


def test_a_field_beside_the_manifest_is_drift_only_where_objects_are_replaced() -> None:
    added = as_served(minReadySeconds=5)
    assert differs(UPDATE, a_deployment(), as_served(), added)
    assert not differs(APPLY, a_deployment(), as_served(), added)


def test_what_is_not_to_be_corrected_is_no_drift() -> None:
    asked, then, now = a_deployment(replicas=3), as_served(replicas=3), as_served(replicas=1)
    assert not differs(CREATE_ONLY, asked, then, now)
    assert differs(CREATE_ONLY, asked, then, None)
    assert not differs(READ_ONLY, asked, then, None)
    assert differs(IGNORING, asked, then, None)


def test_a_job_that_may_go_by_itself_is_not_missed() -> None:
    assert differs(UPDATE, wanted(JOB, spec={}), as_served(), None)
    assert not differs(UPDATE, wanted(JOB, spec={"ttlSecondsAfterFinished": 60}), as_served(), None)


# ---- how it is told


def outcome(drift: Drift | None, available: int = 5) -> ObservedManifest:
    return ObservedManifest(meta(), Applied(), Present(web(available)), drift)


def test_drift_is_told_with_a_count_and_its_own_clock() -> None:
    calm = report(work(), [outcome(Drift())], at(0))
    assert "Drifted" not in statuses(calm)
    assert "Drifted" not in statuses(calm, 0)
    once = report(work(status=calm), [outcome(Drift(1))], at(1))
    said = conditions(once, 0)["Drifted"]
    assert (said.status, said.reason, said.last_transition_time) == ("False", "PutBack", stamp(1))
    assert said.message == "Changed or deleted on the cluster, and put back 1 time"
    assert conditions(once)["Drifted"].message == f"Deployment shop/web: {said.message}"
    assert report(work(status=once), [outcome(Drift(1))], at(2)) == once
    twice = report(work(status=once), [outcome(Drift(2))], at(3))
    assert conditions(twice, 0)["Drifted"].last_transition_time == stamp(3)
    assert conditions(twice)["Progressing"] == conditions(calm)["Progressing"]


def test_drift_that_waits_is_progress_and_no_failure() -> None:
    status = report(work(), [outcome(Drift(4, waiting=True))], at(0))
    assert statuses(status) == {
        "Applied": "True",
        "Available": "True",
        "Progressing": "True",
        "Degraded": "False",
        "Drifted": "True",
    }
    assert "waits to be put back" in conditions(status)["Progressing"].message


def test_drift_of_an_older_generation_is_forgotten_and_of_this_one_kept() -> None:
    status = report(work(), [outcome(Drift(4))], at(0))
    looked = report(work(status=status), [ObservedManifest(meta(), None, Absent())], at(1))
    assert conditions(looked, 0)["Drifted"] == conditions(status, 0)["Drifted"]
    after = report(work(generation=2, status=status), [outcome(None)], at(2))
    assert "Drifted" not in statuses(after) | statuses(after, 0)


def test_a_rule_of_the_users_with_that_name_wins() -> None:
    given = config([rule("Drifted", "true", "by rule")])
    first = report(work(given), [outcome(Drift(4))], at(0))
    assert conditions(first, 0)["Drifted"].message == conditions(first)["Drifted"].message == "by rule"
    assert report(work(given, status=first), [outcome(Drift(5))], at(1)) == first


# ---- how long nobody is fought with


@given(st.integers(1, 50), st.integers(0, 3 * int(QUIET_SECONDS)))
def test_attempts_become_rarer_until_there_was_peace(fights: int, quiet: int) -> None:
    repair, pauses = NO_REPAIR.tried(0, changed=True), list[float]()
    for _ in range(fights):  # somebody changes it again at once
        pauses.append(repair.due - repair.last)
        repair = repair.tried(repair.due, changed=True)
    assert pauses == [min(2.0**number, LAST_PAUSE_SECONDS) for number in range(fights)]
    assert repair.count == fights + 1
    later = repair.last + quiet
    after = repair.tried(max(later, repair.due), changed=False)
    assert after.count == repair.count
    assert after.tries == (1 if quiet > QUIET_SECONDS else repair.tries + 1)
    assert quiet <= QUIET_SECONDS or repair.due <= later  # after peace there is no pause left
