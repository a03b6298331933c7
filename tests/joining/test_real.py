"""The same life on a real kube-apiserver: kube-controller-manager signs, and the controllers have their rights only."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.kube.client import ApplyPatch, Client
from tests.controllers.strict import end
from tests.environment import Access, ControlPlane, Programs
from tests.environment.fixtures import lacking
from tests.joining import story
from tests.joining.place import Place, client_of, install

RIGHTS = Path(__file__).parents[2] / "docs" / "rights.yaml"
CONTROLLER = "controllers-of-a-test"


@pytest.fixture
def plane(kubernetes: Programs, tmp_path: Path) -> Iterator[Access]:
    """A plane that takes bootstrap tokens and signs certificates; it is the hub and its cluster."""
    if not kubernetes.has(["kube-controller-manager"]):
        lacking("no kube-controller-manager")
    options = ["--enable-bootstrap-token-auth=true"]
    with ControlPlane(kubernetes, tmp_path / "plane", controller_manager=True, api_options=options) as running:
        yield running.access


async def give_rights(client: Client) -> None:
    """Give the controllers what the guide gives them, and nothing else."""
    for document in yaml.safe_load_all(RIGHTS.read_text()):
        if document["kind"] == "ClusterRole":
            await client.patch(CLUSTER_ROLE, document["metadata"]["name"], ApplyPatch(document, "test"))
    binding = {
        **CLUSTER_ROLE_BINDING.type_meta,
        "metadata": {"name": CONTROLLER},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "echelon-controllers"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": CONTROLLER}],
    }
    await client.patch(CLUSTER_ROLE_BINDING, CONTROLLER, ApplyPatch(binding, "test"))


def test_a_cluster_joins_works_renews_and_leaves(plane: Access) -> None:
    async def told() -> None:
        async with (
            client_of(plane.kubeconfig) as hub,
            client_of(plane.kubeconfig) as member,
            client_of(plane.kubeconfig_for(CONTROLLER)) as controllers,
        ):
            here = Place(plane.kubeconfig, hub, member)
            await install(hub)
            await give_rights(hub)
            here.run_controllers(controllers)
            try:
                agent = await story.accepted(here, await story.invited(here))
                await story.renewed(here, agent)
                agent = await story.restarted(here, agent)
                await story.not_taken_by_another(here)
                await story.left(here, agent)
            finally:
                await end(*here.tasks)

    asyncio.run(told())
