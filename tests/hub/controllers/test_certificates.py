"""What was approved is signed for as long as was asked for; requests and tokens go when nobody needs them any more."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

from cryptography import x509

from echelon.api.base import JSONObject
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CLIENT_SIGNER, CertificateSigningRequest
from echelon.api.core import SECRET
from echelon.fleet.loop import run, running
from echelon.hub.access.pki import make_pki
from echelon.hub.access.signing import Signer
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube import certificate_requests
from echelon.kube.client import MergePatch
from echelon.kube.errors import NotFound

KIND = CERTIFICATE_SIGNING_REQUEST
LONG_NAME = "system:open-cluster-management:" + "c" * 63 + ":agent"  # longer than X.509 would have it


def request(name: str, **spec: object) -> JSONObject:
    pem = certificate_requests.make(certificate_requests.new_key(), LONG_NAME, ["g1", "g2"])
    encoded = base64.b64encode(pem).decode()
    asked = {"request": encoded, "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}
    return {**KIND.type_meta, "metadata": {"name": name}, "spec": asked}


async def decide(client: InProcessClient, name: str, word: str) -> None:
    said = {"type": word, "status": "True", "reason": "Tested", "message": "in a test"}
    await client.patch(KIND, name, MergePatch({"status": {"conditions": [said]}}), subresource="approval")


async def seen(client: InProcessClient, name: str) -> CertificateSigningRequest | None:
    try:
        return await client.get(KIND, name)
    except NotFound:
        return None


def told(story: object) -> None:
    async def main() -> None:
        cluster = memory_cluster(clock=running().clock.now, seed=1)
        cluster.signer = Signer(make_pki((), running().clock.now()).authority)
        await bootstrap(cluster)
        keeping = asyncio.create_task(run_controllers(cluster))
        await story(InProcessClient(cluster, ROOT))  # type: ignore[operator]  # it is one of the below
        cluster.store.close()
        await keeping

    run(main(), 1)


def test_what_is_approved_is_signed_as_it_was_asked_for() -> None:
    async def story(client: InProcessClient) -> None:
        for name, spec in (
            ("short", {"expirationSeconds": 600}),
            ("long", {"expirationSeconds": 10**9}),
            ("plain", {}),
        ):
            await client.create(KIND, request(name, **spec))
            await decide(client, name, "Approved")
        await client.create(KIND, request("waits"))
        await asyncio.sleep(1)
        lives = {}
        for name in ("short", "long", "plain"):
            found = await client.get(KIND, name)
            made = x509.load_pem_x509_certificate(base64.b64decode(found.status.certificate))
            lives[name] = made.not_valid_after_utc - made.not_valid_before_utc
            with certificate_requests.names_of_any_length():
                names = [part.value for part in made.subject]
            assert names == ["g1", "g2", LONG_NAME]
        skew = timedelta(minutes=5)
        assert lives == {
            "short": timedelta(minutes=10) + skew,
            "long": timedelta(days=365) + skew,
            "plain": lives["long"],
        }
        assert not (await client.get(KIND, "waits")).status.certificate

    told(story)


def test_what_a_client_may_not_have_fails_and_what_is_denied_or_for_another_signer_is_left_alone() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(KIND, request("serves", usages=["client auth", "server auth"]))
        await client.create(KIND, request("denied"))
        await client.create(KIND, request("foreign", signerName="example.com/signer"))
        await decide(client, "serves", "Approved")
        await decide(client, "denied", "Denied")
        await decide(client, "foreign", "Approved")
        await asyncio.sleep(1)
        failed = (await client.get(KIND, "serves")).decision("Failed")
        assert failed is not None
        assert failed.message == "invalid usage for client certificate: client auth, server auth"
        for name in ("serves", "denied", "foreign"):
            assert not (await client.get(KIND, name)).status.certificate

    told(story)


def test_requests_go_an_hour_after_they_were_decided_and_a_day_after_they_were_made() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(KIND, request("decided"))
        await client.create(KIND, request("waits"))
        await decide(client, "decided", "Approved")
        await asyncio.sleep(3500)
        assert await seen(client, "decided") is not None
        await asyncio.sleep(500)
        assert await seen(client, "decided") is None
        assert await seen(client, "waits") is not None
        await asyncio.sleep(86_400)
        assert await seen(client, "waits") is None

    told(story)


def test_a_token_goes_when_it_expires() -> None:
    async def story(client: InProcessClient) -> None:
        until = datetime.fromtimestamp(running().clock.now().timestamp() + 600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, kind, fields in (
            ("bootstrap-token-abc123", "bootstrap.kubernetes.io/token", {"expiration": until}),
            ("bootstrap-token-abc124", "bootstrap.kubernetes.io/token", {}),
            ("other", "Opaque", {"expiration": until}),
        ):
            body = {**SECRET.type_meta, "metadata": {"name": name}, "type": kind, "stringData": fields}
            await client.create(SECRET.untyped(), body, "kube-system")
        await asyncio.sleep(700)
        left = [each.metadata.name for each in (await client.list(SECRET, "kube-system")).items]
        assert left == ["bootstrap-token-abc124", "other"]

    told(story)
