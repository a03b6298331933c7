"""Certificate requests: who asked is what the server saw, and every server asks for the same rights to decide."""

import asyncio
import base64
import itertools
import os
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CLIENT_SIGNER
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.kube import certificate_requests
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from tests.conformance.targets import Target

KIND = CERTIFICATE_SIGNING_REQUEST.untyped()
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
READY_SECONDS = 30.0
KEY = certificate_requests.new_key()
_numbers = itertools.count()


def request(user: str = "someone", groups: tuple[str, ...] = ("some",), **spec: Any) -> JSONObject:
    pem = certificate_requests.make(KEY, user, groups)
    asked = {"request": base64.b64encode(pem).decode(), "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}
    return {**CERTIFICATE_SIGNING_REQUEST.type_meta, "metadata": {"name": f"{WORKER}-{next(_numbers)}"}, "spec": asked}


def said(kind: str, status: str = "True") -> JSONObject:
    return {"type": kind, "status": status, "reason": "Tested", "message": "in a test"}


async def decide(client: Client, name: str, *conditions: JSONObject, through: str = "approval") -> Any:
    change = MergePatch({"status": {"conditions": list(conditions)}})
    return await client.patch(KIND, name, change, subresource=through)


async def give(admin: Client, user: str, *rules: JSONObject) -> None:
    name = f"{user}-{next(_numbers)}"
    await admin.create(CLUSTER_ROLE.untyped(), {**CLUSTER_ROLE.type_meta, "metadata": {"name": name}, "rules": rules})
    body: JSONObject = {
        **CLUSTER_ROLE_BINDING.type_meta,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await admin.create(CLUSTER_ROLE_BINDING.untyped(), body)


def rule(resource: str, *verbs: str, name: str = "") -> JSONObject:
    made: JSONObject = {"apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": list(verbs)}
    return {**made, "resourceNames": [name]} if name else made


async def refusal(attempt: Any) -> str:
    try:
        await attempt
    except Forbidden as error:
        return str(error)
    return ""


async def test_who_asks_is_what_the_server_saw(target: Target) -> None:
    body = request(username="system:admin", uid="7", extra={"a": ["b"]})
    made = await target.client.create(KIND, body)
    assert made["spec"]["username"] != "system:admin"
    assert made["spec"].get("uid", "") != "7"
    assert "a" not in made["spec"].get("extra", {})
    changed = await target.client.patch(KIND, body["metadata"]["name"], MergePatch({"spec": {"usages": ["any"]}}))
    assert changed["spec"]["usages"] == ["client auth"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"request": "bm90IGEgcmVxdWVzdA=="}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "flying"]}, 'spec.usages[1]: Unsupported value: "flying"'),
        ({"usages": ["client auth", "client auth"]}, 'spec.usages[1]: Duplicate value: "client auth"'),
        ({"signerName": "me"}, "spec.signerName: Invalid value"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds (10 minutes)"),
    ],
)
async def test_what_is_no_request_is_refused(target: Target, spec: JSONObject, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        await target.client.create(KIND, request(**spec))
    assert told in str(refused.value)


async def test_nobody_asks_to_be_a_master(target: Target) -> None:
    told = await refusal(target.client.create(KIND, request(groups=("system:masters",))))
    assert "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed" in told


async def test_a_decision_is_one_and_is_not_taken_back(target: Target) -> None:
    name = (await target.client.create(KIND, request()))["metadata"]["name"]
    with pytest.raises(Invalid, match="Unsupported value"):
        await decide(target.client, name, said("Approved", "False"))
    with pytest.raises(Invalid, match="Approved and Denied conditions are mutually exclusive"):
        await decide(target.client, name, said("Approved"), said("Denied"))
    denied = await decide(target.client, name, said("Denied"))
    assert [each["type"] for each in denied["status"]["conditions"]] == ["Denied"]
    assert denied["status"]["conditions"][0]["lastTransitionTime"]
    with pytest.raises(Invalid, match='updates may not remove a condition of type "Denied"'):
        await decide(target.client, name)


async def test_each_endpoint_says_what_it_is_for(target: Target) -> None:
    name = (await target.client.create(KIND, request(signerName="example.com/nobody")))["metadata"]["name"]
    with pytest.raises(Invalid, match='updates may not add a condition of type "Approved"'):
        await decide(target.client, name, said("Approved"), through="status")
    through_object = await target.client.patch(KIND, name, MergePatch({"status": {"conditions": [said("Denied")]}}))
    assert "conditions" not in through_object.get("status", {})
    change = MergePatch({"status": {"certificate": "bm8=", "conditions": [said("Approved")]}})
    approved = await target.client.patch(KIND, name, change, subresource="approval")
    assert [each["type"] for each in approved["status"]["conditions"]] == ["Approved"]
    assert "certificate" not in approved["status"]


async def test_to_decide_takes_the_verb_on_the_signer(target: Target) -> None:
    user = f"approver-{WORKER}-{target.name}"
    name = (await target.client.create(KIND, request()))["metadata"]["name"]
    await give(target.client, user, rule("certificatesigningrequests/approval", "patch", "update"))
    await give(target.client, user, rule("certificatesigningrequests/status", "patch", "update"))
    async with target.as_user(user) as approver:
        words = f'user not permitted to approve requests with signerName "{CLIENT_SIGNER}"'
        async with asyncio.timeout(READY_SECONDS):  # a server reads new rights a moment after they were made
            while words not in await refusal(decide(approver, name, said("Approved"))):  # noqa: ASYNC110 - elsewhere
                await asyncio.sleep(0.1)
            await give(target.client, user, rule("signers", "approve", name="kubernetes.io/*"))
            while await refusal(decide(approver, name, said("Approved"))):  # noqa: ASYNC110 - elsewhere
                await asyncio.sleep(0.1)
        told = await refusal(decide(approver, name, said("Approved"), said("Failed"), through="status"))
        assert f'user not permitted to sign requests with signerName "{CLIENT_SIGNER}"' in told


async def test_a_name_that_is_taken_stays_taken(target: Target) -> None:
    body = request()
    await target.client.create(KIND, body)
    with pytest.raises(AlreadyExists):
        await target.client.create(KIND, body)


async def test_other_kinds_have_no_approval(target: Target) -> None:
    with pytest.raises(ApiError) as refused:
        await target.client.patch(CLUSTER_ROLE.untyped(), "view", MergePatch({}), subresource="approval")
    assert refused.value.status_code in (404, 405)
