"""When a policy is evaluated, and when it is looked at again."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from echelon.api.configuration_policy import ConfigurationPolicy
from echelon.api.times import format_time
from echelon.engine.configuration_policy.schedule import LEAST_PAUSE, NOW, Circumstances, next_evaluation
from tests.engine.configuration_policy.toy_cluster import START

AGO = START - timedelta(seconds=12)
LONG_AGO = START - timedelta(hours=12)
AHEAD = START + timedelta(seconds=60)


def evaluated(
    state: str = "Compliant",
    at: datetime | str = AGO,
    generation: int = 2,
    *,
    deleted: bool = False,
    retried: str = "",
    reason: str = "",
    **interval: str,
) -> ConfigurationPolicy:
    body: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "c1", "generation": 2},
        "spec": {"object-templates": [], "evaluationInterval": interval},
        "status": {
            "compliant": state,
            "lastEvaluated": format_time(at) if isinstance(at, datetime) else at,
            "lastEvaluatedGeneration": generation,
            "compliancyDetails": [{"Compliant": state, "conditions": [{"type": "violation", "reason": reason}]}],
        },
    }
    if deleted:
        body["metadata"]["deletionTimestamp"] = format_time(START)
    if retried:
        body["metadata"]["annotations"] = {"echelon.dev/retried-at": retried}
    return msgspec.convert(body, ConfigurationPolicy)


def due(policy: ConfigurationPolicy, **seen: Any) -> bool:
    return next_evaluation(policy, Circumstances(**seen), START) == NOW


@pytest.mark.parametrize(
    ("policy", "seen", "expected"),
    [
        pytest.param(evaluated(at=AHEAD, compliant="10s"), {}, False, id="just evaluated, generation unchanged"),
        pytest.param(evaluated(at=AHEAD, generation=1, compliant="10s"), {}, True, id="the generation has changed"),
        pytest.param(evaluated(at="", compliant="10s"), {}, True, id="never evaluated"),
        pytest.param(evaluated(at="Do or do not.", compliant="10s"), {}, True, id="nobody knows when"),
        pytest.param(evaluated("", compliant="10s"), {}, True, id="the state is unknown"),
        pytest.param(evaluated("Terminating", compliant="never", noncompliant="never"), {}, True, id="terminating"),
        pytest.param(evaluated(), {}, False, id="watching, and nothing has changed"),
        pytest.param(evaluated(), {"changed": True}, True, id="watching, and something has changed"),
        pytest.param(evaluated("NonCompliant", noncompliant="watch"), {"changed": True}, True, id="watching it"),
        pytest.param(evaluated(at=LONG_AGO, compliant="never"), {"changed": True}, False, id="never while compliant"),
        pytest.param(
            evaluated("NonCompliant", LONG_AGO, noncompliant="never"), {"changed": True}, False, id="never while not"
        ),
        pytest.param(evaluated("NonCompliant", compliant="never"), {"changed": True}, True, id="never, but not so"),
        pytest.param(evaluated(compliant="10s"), {}, True, id="the interval is over"),
        pytest.param(evaluated(compliant="1m"), {"changed": True}, False, id="the interval is not over"),
        pytest.param(evaluated("NonCompliant", compliant="1h", noncompliant="10s"), {}, True, id="each has its own"),
        pytest.param(evaluated("Pending", compliant="1h", noncompliant="10s"), {}, True, id="pending is no success"),
        pytest.param(evaluated(compliant="often"), {"changed": True}, True, id="an interval that is none"),
        pytest.param(evaluated(compliant="never", deleted=True), {}, True, id="being deleted"),
        pytest.param(evaluated(compliant="never"), {"namespaces_changed": True}, True, id="other namespaces"),
        pytest.param(evaluated(compliant="never"), {}, False, id="the same namespaces"),
        pytest.param(evaluated(compliant="never", retried=format_time(START)), {}, True, id="somebody asks"),
        pytest.param(evaluated(compliant="never", retried=format_time(LONG_AGO)), {}, False, id="that was answered"),
        pytest.param(
            evaluated(compliant="never", retried=format_time(AHEAD)),
            {"retried_at": format_time(AHEAD), "evaluated_at": AGO},
            False,
            id="by a clock that is ahead of ours",
        ),
        pytest.param(
            evaluated("NonCompliant", noncompliant="never", reason="K8s update success"),
            {},
            True,
            id="not the end",
        ),
        pytest.param(evaluated(compliant="never", reason="K8s update success"), {}, False, id="the end"),
    ],
)
def test_a_policy_is_evaluated(policy: ConfigurationPolicy, seen: dict[str, Any], expected: bool) -> None:
    assert due(policy, **seen) is expected


def wait(policy: ConfigurationPolicy, **seen: Any) -> timedelta | None:
    return next_evaluation(policy, Circumstances(**seen), START)


def test_an_interval_says_when_to_look_again() -> None:
    assert wait(evaluated(compliant="1m")) == timedelta(seconds=48)
    assert wait(evaluated(compliant="1m"), evaluated_at=START - timedelta(seconds=2)) == timedelta(seconds=58)


def test_much_that_happens_at_once_is_looked_at_once() -> None:
    recent = START - timedelta(seconds=2)
    assert wait(evaluated(), changed=True, evaluated_at=recent) == LEAST_PAUSE - timedelta(seconds=2)
    assert wait(evaluated(), changed=True, evaluated_at=recent, mended=6) == timedelta(seconds=78)


def test_a_new_generation_and_a_wish_wait_for_nobody() -> None:
    seen = {"changed": True, "evaluated_at": START}
    assert wait(evaluated(generation=1), **seen, evaluated_generation=1) == NOW
    assert wait(evaluated(retried=format_time(AHEAD)), **seen) == NOW
    assert wait(evaluated(generation=1), **seen, evaluated_generation=2) == LEAST_PAUSE, "it was evaluated just now"


def test_a_failure_is_tried_again_whatever_the_interval() -> None:
    later = START + timedelta(seconds=30)
    assert wait(evaluated("NonCompliant", noncompliant="never"), retry_at=later) == timedelta(seconds=30)
    assert wait(evaluated("NonCompliant", noncompliant="10s"), retry_at=later) == NOW
    assert wait(evaluated("Terminating", deleted=True), evaluated_at=AGO, retry_at=later) == timedelta(seconds=30)
