"""The story that every hub has to tell in the same way: a cluster joins, works, renews, and leaves."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from echelon.agent.certificate import Wanted
from echelon.agent.joining import CannotJoin, Invitation
from echelon.api.base import JSONObject
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CLIENT_SIGNER
from echelon.api.core import SECRET
from echelon.api.events import EVENT
from echelon.engine.joining import agent_groups, agent_user
from echelon.kube import certificate_requests
from echelon.kube.client import Client
from echelon.kube.errors import ApiError, Forbidden
from echelon.kube.http import HttpClient
from tests.joining.place import Place, Running, whoami

AVAILABLE = "ManagedClusterConditionAvailable"


def forged(name: str, user: str, groups: tuple[str, ...], **spec: Any) -> JSONObject:
    pem = certificate_requests.make(certificate_requests.new_key(), user, groups)
    asked = {"request": base64.b64encode(pem).decode(), "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}
    return {**CERTIFICATE_SIGNING_REQUEST.type_meta, "metadata": {"name": name}, "spec": asked}


async def is_denied(here: Place, asker: Client, body: JSONObject, why: str) -> None:
    """Ask for something that one may not have, and be told why."""
    name = body["metadata"]["name"]
    await asker.create(CERTIFICATE_SIGNING_REQUEST.untyped(), body)

    async def told() -> bool:
        said = (await here.hub.get(CERTIFICATE_SIGNING_REQUEST, name)).decision("Denied")
        return said is not None and why in said.message

    await here.until(told, f"{name} is not denied because {why}")

    async def noted() -> bool:
        events = (await here.hub.list(EVENT)).items
        return any(each.regarding.name == name and why in each.note for each in events)

    await here.until(noted, f"there is no event about {name}")
    seen = await here.hub.get(CERTIFICATE_SIGNING_REQUEST, name)
    assert not seen.status.certificate


async def invited(here: Place) -> Invitation:
    """Invite a cluster, and see that its token is good for little."""
    invitation = await here.invitation("c1")
    assert invitation.cluster == "c1"
    async with HttpClient(invitation.config) as bearer:
        for attempt in (bearer.list(SECRET, "kube-system"), bearer.list(CERTIFICATE_SIGNING_REQUEST)):
            with pytest.raises(Forbidden):
                await attempt
        mine, other = agent_groups("c1"), agent_groups("c2")
        token = "its token is for c1 and not for c2"
        await is_denied(here, bearer, forged("f-name", agent_user("c2", "a"), other), token)
        more = forged("f-groups", agent_user("c1", "a"), (*mine, "system:nodes"))
        await is_denied(here, bearer, more, "it asks for the groups")
        usages = forged("f-usages", agent_user("c1", "a"), mine, usages=["client auth", "cert sign"])
        await is_denied(here, bearer, usages, "its usages are client auth, cert sign")
        await is_denied(here, bearer, forged("f-user", "admin", mine), "it asks for the name admin")
    return invitation


async def accepted(here: Place, invitation: Invitation) -> Running:
    """Join: ask, be accepted by a person, and work with the certificate only."""
    agent = here.start_agent(invitation)

    async def asking() -> bool:
        return "c1     Asking" in (await here.echelon("cluster", "list")).stdout

    await here.until(asking, "the cluster does not ask")
    assert "echelon cluster accept c1" in (await here.echelon("cluster", "show", "c1")).stdout
    done = await here.echelon("cluster", "accept", "c1")
    assert "cluster c1 accepted" in done.stdout
    await here.until(lambda: here.is_said("c1", AVAILABLE), "the cluster is not available")
    for secret in (await here.hub.list(SECRET, "kube-system")).items:
        if secret.type == "bootstrap.kubernetes.io/token":
            await here.hub.delete(SECRET, secret.metadata.name, "kube-system")
    await here.applies("c1", "with its certificate only")
    assert agent.hub is not None
    user, groups = await whoami(agent.hub)
    assert user == agent_user("c1", (await here.kept()).agent)
    assert set(groups) == {*agent_groups("c1"), "system:authenticated"}
    return agent


async def renewed(here: Place, agent: Running) -> None:
    """Renew without anybody, and for nobody else."""
    before = await here.kept()
    here.clock.by += timedelta(minutes=8)

    async def another() -> bool:
        return (await here.kept()).certificate != before.certificate

    await here.until(another, "the certificate is not renewed")
    here.clock.by = timedelta(0)

    async def settled() -> bool:
        return not (await here.kept()).next_key

    await here.until(settled, "a renewal does not come to an end")
    after = await here.kept()
    assert after.key != before.key
    assert after.agent == before.agent
    await here.applies("c1", "with a renewed certificate")
    assert agent.hub is not None
    other = forged("r-other", agent_user("c2", after.agent), agent_groups("c2"))
    await is_denied(here, agent.hub, other, "may ask for its own name and not for system:open-cluster-management:c2:")
    name = forged("r-name", agent_user("c1", "another"), agent_groups("c1"))
    await is_denied(here, agent.hub, name, "may ask for its own name")
    for_masters = forged("r-masters", agent_user("c1", after.agent), (*agent_groups("c1"), "system:masters"))
    with pytest.raises(Forbidden, match="system:masters group is not allowed"):
        await agent.hub.create(CERTIFICATE_SIGNING_REQUEST.untyped(), for_masters)


async def restarted(here: Place, agent: Running) -> Running:
    """Begin again with nothing but what the cluster keeps."""
    await here.stop(agent)
    again = here.start_agent(instance="two")
    await here.applies("c1", "after a restart")
    return again


async def not_taken_by_another(here: Place) -> None:
    """An invitation is of no use to a second one once its cluster has joined."""
    invitation = await here.invitation("c1")
    async with HttpClient(invitation.config) as bearer:
        wanted = Wanted("c1", "thief", certificate_requests.new_key(), 600)
        await bearer.create(CERTIFICATE_SIGNING_REQUEST, wanted.body)
        await is_denied(here, bearer, forged("after", agent_user("c2", "a"), agent_groups("c2")), "its token is for c1")
        assert (await here.hub.get(CERTIFICATE_SIGNING_REQUEST, wanted.name)).is_pending
        await here.hub.delete(CERTIFICATE_SIGNING_REQUEST, wanted.name)
    with pytest.raises(CannotJoin, match="the invitation is for c1 and not for c9"):
        await here.start_agent(invitation, cluster="c9").task
    here.tasks.pop()


async def left(here: Place, agent: Running) -> None:
    """Leave, and have no rights any more, renewals included."""
    done = await here.echelon("cluster", "detach", "c1")
    assert "cluster c1 has left the fleet" in done.output
    assert agent.hub is not None

    async def refused() -> bool:
        assert agent.hub is not None
        wanted = Wanted("c1", (await here.kept()).agent, certificate_requests.new_key(), 600)
        try:
            await agent.hub.create(CERTIFICATE_SIGNING_REQUEST, wanted.body)
            said = None
            while said is None:
                said = (await here.hub.get(CERTIFICATE_SIGNING_REQUEST, wanted.name)).decision("Denied")
        except ApiError:
            return False
        return "does not accept the cluster c1" in said.message

    await here.until(refused, "a cluster that has left gets certificates")
    await here.stop(agent)
