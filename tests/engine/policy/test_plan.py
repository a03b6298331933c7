"""A plan for a large fleet is made in parts, none of which keeps everybody else waiting."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.policy import PolicyStatus
from echelon.api.rollout import RolloutStrategy
from echelon.engine.plan import Create, InOrder, Plan, Together
from echelon.engine.policy.bindings import PlacementName, Way
from echelon.engine.policy.content import read_content
from echelon.engine.policy.plan import plan
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import read_replica
from echelon.engine.policy.view import PolicyView, rule_view
from echelon.engine.policy.writes import MOST_WRITES
from echelon.engine.rollout.references import PlacementReference
from tests.controllers.policy_world import template
from tests.engine.policy.replicas import START

LEFT = 100


def observed(clusters: int) -> PolicyView:
    """Return a policy that goes to clusters of which none has it."""
    strategy = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}
    spec = {"remediationAction": "enforce", "policy-templates": [template()], "rolloutStrategy": strategy}
    meta = ObjectMeta(name="audit", namespace="apps", uid="u", generation=1, resource_version="1")
    name = PlacementName("all")
    selected = rule_view(frozenset(f"c{number:04}" for number in range(clusters)))
    return PolicyView(
        RawPolicy(metadata=meta, spec=spec, status=PolicyStatus()),
        read_content(Key("apps", "audit"), spec, {}),
        (Way("all", name),),
        {name: PlacementReference("all", RolloutStrategy(), selected)},
    )


def made(found: Plan) -> list[Create]:
    writes = [each for action in found.actions if isinstance(action, Together) for each in action.actions]
    return [each.actions[0] for each in writes if isinstance(each, InOrder) and isinstance(each.actions[0], Create)]


def with_replicas(view: PolicyView, writes: list[Create]) -> PolicyView:
    """Return what is observed when replicas were made, and told that they wait."""
    status = PolicyStatus(rollout_status="ToApply")
    metas = [msgspec.convert({**each.body["metadata"], "uid": each.namespace}, ObjectMeta) for each in writes]
    new = {
        each.namespace: read_replica(
            RawPolicy(
                metadata=msgspec.structs.replace(meta, namespace=each.namespace), spec=each.body["spec"], status=status
            )
        )
        for meta, each in zip(metas, writes, strict=True)
    }
    return replace(view, replicas={**view.replicas, **new})


def test_the_first_pass_of_a_large_fleet_is_made_in_parts() -> None:
    view = observed(2 * MOST_WRITES + LEFT)
    for expected in (MOST_WRITES, MOST_WRITES, LEFT):
        found = plan(view, START)
        assert len(made(found)) == expected
        assert (found.look_again_after == timedelta()) == (expected == MOST_WRITES)
        view = with_replicas(view, made(found))
    assert len({*view.replicas}) == 2 * MOST_WRITES + LEFT
    assert not made(plan(view, START))


def test_a_part_that_the_hub_does_not_let_begin_is_not_tried_again_at_once() -> None:
    view = observed(2 * MOST_WRITES)
    refused = replace(view, outcomes=replace(view.outcomes, own="no room", next_try=START + timedelta(seconds=8)))
    found = plan(refused, START)
    assert not made(found)
    assert found.look_again_after == timedelta(seconds=8)
