"""The rights that are documented are all that the controller of PodCliqueSets needs on a cluster."""

from pathlib import Path
from typing import Any

import yaml

from echelon.api.core import SECRET
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.controllers.running import Lease
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, set_of, told

RIGHTS = Path(__file__).parent.parent.parent / "docs" / "member-rights.yaml"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:echelon-system", "system:authenticated")
ACCOUNT = User("system:serviceaccount:echelon-system:echelon-pod-cliques", GROUPS)
KINDS = {
    each.kind: each for each in (NAMESPACE, SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
}


async def give(world: CliqueWorld) -> None:
    for document in yaml.safe_load_all(RIGHTS.read_text()):
        kind: Any = KINDS[document["kind"]]
        await world.client.create(kind.untyped(), document, document["metadata"].get("namespace", ""))


def test_nothing_more_is_needed_for_a_set_with_everything() -> None:
    async def story(world: CliqueWorld) -> None:
        await give(world)
        world.start(InProcessClient(world.client._cluster, ACCOUNT), Lease(name="echelon-pod-cliques"))
        scaled = {"maxReplicas": 5, "minReplicas": 1}
        await world.apply(
            set_of(
                clique("front", 2, minAvailable=1, autoScalingConfig=scaled),
                clique("lead", 1),
                clique("work", 2),
                podCliqueScalingGroups=[group("pool", "lead", "work")],
                cliqueStartupType="CliqueStartupTypeInOrder",
            )
        )
        await world.settle(120)
        assert (await world.set()).status.last_errors == []
        assert world.ready() == 8
        assert [each.metadata.name for each in (await world.client.list(SECRET, NS)).items] == ["w-ic-sat"]
        await world.roll("v2")
        await world.settle(600)
        assert world.images() == ["v2"] * 8
        await world.scale_group("w-0-pool", 1)
        await world.settle(60)
        assert world.ready() == 5
        assert (await world.set()).status.last_errors == []

    told(story)
