"""Which certificate authorities an agent follows its hub to: a hub that is somebody else's is not believed."""

from datetime import UTC, datetime

import pytest

from echelon.agent.membership import Membership, MembershipCredentials, MembershipSecret
from echelon.agent.renewal import AUTHORITY_FIELD, AUTHORITY_NAME, AUTHORITY_NAMESPACE, Renewal
from echelon.api.core import CONFIG_MAP
from echelon.fleet.loop import run, running
from echelon.hub.access.pki import new_authority
from echelon.kube.client import MergePatch
from echelon.kube.errors import NotFound
from tests.agent.world import server

OLD, NEXT, STRANGE = (new_authority(datetime.now(UTC)).certificate_pem for _ in range(3))


@pytest.mark.parametrize(
    ("published", "followed"),
    [(OLD + NEXT, OLD + NEXT), (NEXT + OLD, NEXT + OLD), (STRANGE, OLD), (NEXT + STRANGE, OLD), (b"none", OLD)],
)
def test_authorities_are_followed_only_if_one_of_them_is_trusted_already(published: bytes, followed: bytes) -> None:
    async def main() -> None:
        hub, member = await server((), 1), await server((), 2)
        data = {"data": {AUTHORITY_FIELD: published.decode()}}
        try:
            await hub.client.patch(CONFIG_MAP, AUTHORITY_NAME, MergePatch(data), AUTHORITY_NAMESPACE)
        except NotFound:
            body = {**CONFIG_MAP.type_meta, "metadata": {"name": AUTHORITY_NAME}, **data}
            await hub.client.create(CONFIG_MAP.untyped(), body, AUTHORITY_NAMESPACE)
        credentials = MembershipCredentials(Membership("west", "agent", "https://hub", OLD))
        kept = MembershipSecret(member.client, "default", "identity")
        renewal = Renewal(hub.client, credentials, kept, clock=running().clock, random=running().random)
        await renewal._follow_authorities()
        assert credentials.membership.authority == followed

    run(main())
