"""What is said when a hub lacks kinds that controllers need, and how they do without those that they only use."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.api.multicluster import MULTICLUSTER_DECISION
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.propagation import PROPAGATION_POLICY
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.optional_kinds import missing
from echelon.controllers.running import (
    MULTICLUSTER,
    NAMES,
    POLICY_NAMES,
    WORKLOAD_NAMES,
    WORKLOADS,
    Controllers,
    MissingKinds,
    custom_kinds_of,
)
from echelon.fleet.loop import run
from echelon.kube.client import Page
from echelon.kube.errors import ApiError, Forbidden, NotFound, Unavailable
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, told
from tests.controllers.policy_set_world import bind, placed_set, policy, said, serve
from tests.controllers.strict import STRICT

APPLY = "kubectl apply --server-side -f -"


@pytest.mark.parametrize(
    ("missing", "controllers", "how"),
    [
        (custom_kinds_of(NAMES), NAMES, f"echelon crds | {APPLY}"),
        (
            custom_kinds_of(["cluster-sets"]),
            ("cluster-sets",),
            f"echelon crds --controllers cluster-sets | {APPLY}",
        ),
        (
            (MANIFEST_WORK_REPLICA_SET, MANAGED_CLUSTER),
            NAMES,
            f"echelon crds {MANIFEST_WORK_REPLICA_SET.resource} {MANAGED_CLUSTER.resource} | {APPLY}",
        ),
        ((MULTICLUSTER_DECISION,), (*NAMES, MULTICLUSTER), f"echelon crds --multicluster | {APPLY}"),
    ],
    ids=["nothing is there", "nothing that these need is there", "two are missing", "that of somebody else"],
)
def test_only_what_is_missing_is_to_be_installed_and_nothing_is_forced(
    missing: tuple[Kind[object], ...], controllers: tuple[str, ...], how: str
) -> None:
    said = str(MissingKinds(missing, controllers))
    assert said == f"the hub does not serve {', '.join(kind.resource for kind in missing)}; install them: {how}"


# --- kinds that are used where they are served -----------------------------------------------------------------------


def test_controllers_of_policies_run_only_when_they_are_named() -> None:
    assert POLICY_NAMES
    assert not set(POLICY_NAMES) & set(NAMES)
    assert PLACEMENT_RULE not in custom_kinds_of(POLICY_NAMES), "it is not needed"


def test_federated_workloads_run_only_when_they_are_named_and_then_all_of_it() -> None:
    assert set(WORKLOAD_NAMES) == {WORKLOADS, "workload-propagation"}
    assert not set(WORKLOAD_NAMES) & set(NAMES)
    assert set(custom_kinds_of([WORKLOADS])) == set(custom_kinds_of(WORKLOAD_NAMES))
    assert PROPAGATION_POLICY in custom_kinds_of([WORKLOADS])
    assert CLONE_SET not in custom_kinds_of([WORKLOADS]), "it is not needed"


def checked(hub: Hub, client: Any) -> Controllers:
    names = ("policy-sets",)
    return Controllers(
        client,
        hub.clock,
        names,
        random=Random(0),  # noqa: S311 - repeatable on purpose
        metrics=Metrics(),
        instance="test",
        settings=STRICT,
    )


def test_a_controller_does_without_an_optional_kind_until_the_hub_serves_it() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        await policy(hub, "a", c1="Compliant", c9="NonCompliant")
        await bind(hub, "another", "basics", to="r", rule=True)
        await checked(hub, hub.client).check()
        hub.start("placement", "policy-sets")
        await hub.settle()
        assert (await said(hub))[0] == "Compliant"
        await serve(hub, PLACEMENT_RULE.resource)
        await hub.create(PLACEMENT_RULE, "r", NS, status={"decisions": [{"clusterName": "c9"}]})
        await hub.settle(90)
        assert (await said(hub))[0] == "NonCompliant"

    told(story)


class Answers:
    """A reader that answers in a row, as a server does that is started anew."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.left = list(answers)

    async def list(self, *_: object, **__: object) -> Page[Any]:
        answer = self.left.pop(0)
        if answer is not None:
            raise answer
        return Page((), "1")


@pytest.mark.parametrize("served", [True, False])
def test_a_kind_is_missing_only_when_the_server_says_so(served: bool) -> None:
    last = None if served else NotFound("no such resource")
    reader = Answers(Unavailable("starting"), Forbidden("not yours"), Unavailable("still starting"), last)

    async def main() -> None:
        found = await missing(reader, [PLACEMENT_RULE], Random(0))  # type: ignore[arg-type]  # noqa: S311 - it only lists, and repeatable
        assert found == (() if served else (PLACEMENT_RULE,))

    run(main(), 0)
    assert reader.left == []


class RulesAreNotYours:
    """A client that may not list placement rules."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list(self, kind: Kind[Any], *arguments: Any, **options: Any) -> Page[Any]:
        if kind.resource == PLACEMENT_RULE.resource:
            raise Forbidden("placementrules is forbidden")
        page: Page[Any] = await self._client.list(kind, *arguments, **options)
        return page


def test_a_kind_that_one_may_not_list_is_not_taken_for_missing() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        with pytest.raises(Forbidden, match="placementrules is forbidden"):
            await checked(hub, RulesAreNotYours(hub.client)).check()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await checked(hub, RulesAreNotYours(hub.client)).run()

    told(story)
