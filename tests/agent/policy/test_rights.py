"""An agent does all of this with the rights that its cluster has on the hub, and with no others."""

import asyncio
from random import Random

from echelon.api.apps import DEPLOYMENT
from echelon.api.events import EVENT
from echelon.api.policy import POLICY
from echelon.controllers.cluster.belongings import agent_group
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.metrics import Metrics
from tests.agent.policy.test_idle import ADDON, others
from tests.agent.policy.world import NAME, PolicyWorld, template, told
from tests.agent.world import CLUSTER
from tests.controllers.strict import STRICT, end


def test_an_agent_needs_no_more_on_the_hub_than_it_has() -> None:
    async def story(here: PolicyWorld) -> None:
        hub, member = here.here.hub, here.here.member
        controllers = Controllers(
            hub.client,
            running().clock,
            ["cluster-registration"],
            random=Random(1),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            instance="test",
            settings=STRICT,
        )
        serving = asyncio.create_task(controllers.run())
        await here.settle(20)
        here.start(hub=InProcessClient(hub.cluster, User("agent", (agent_group(CLUSTER), "system:authenticated"))))
        await here.settle(20)
        await here.write(template(), held=True, said="ToApply")
        await here.write(template(), said="Progressing")
        assert (await here.status())["rolloutStatus"] == "Succeeded"
        await member.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADDON}})
        await member.create(others())
        await here.settle()
        found = await hub.client.list(EVENT.untyped(), CLUSTER)
        assert [each["reason"] for each in found.items if each["type"] == "Warning"] == ["OtherPolicyControllers"]
        await member.delete(DEPLOYMENT, "governance-policy-framework", ADDON)
        await hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(60)
        assert await here.children() == []
        await end(serving)

    told(story, started=False)
