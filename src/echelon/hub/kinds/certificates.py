"""The habits of certificate requests: who asks is what the server saw, and each decision has an endpoint and a right.

Whoever may write a request could ask for any name. So approving one needs the verb `approve`, and answering it the verb
`sign`, on the signer that it is for; and through each of the two endpoints only that can be said which it is for.
"""

import base64
import binascii
import re

from echelon.api.base import JSONObject
from echelon.api.certificates import APPROVED, CLIENT_SIGNER, DENIED, FAILED, GROUP
from echelon.hub.access.identity import MASTERS, User
from echelon.hub.access.rbac import Attributes
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.strategy import StatusChange, Strategy
from echelon.hub.schema import causes
from echelon.kube import certificate_requests, errors
from echelon.kube.certificate_requests import BadRequestError
from echelon.kube.errors import Cause

_RESOURCE = "certificatesigningrequests"
_DECISIONS = (APPROVED, DENIED)
_FINAL = (APPROVED, DENIED, FAILED)
_SHORTEST_SECONDS = 600
_SIGNER = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[a-zA-Z0-9]([-a-zA-Z0-9._:/]{0,569}[a-zA-Z0-9])?")
_LEGACY = "kubernetes.io/legacy-unknown"
_USAGES = (
    "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
    "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing",
    "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing",
    "microsoft sgc", "netscape sgc",
)  # fmt: skip


def _create(_cluster: LogicalCluster, obj: JSONObject, user: User) -> None:
    """Write down who asks; nobody may say that another one did."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    _check_masters(obj)


def _check_masters(obj: JSONObject) -> None:
    """Keep anybody from becoming an unlimited user by a request that a careless person approves."""
    spec = obj["spec"]
    if spec.get("signerName") != CLIENT_SIGNER:
        return
    try:
        asked = certificate_requests.read(_pem(spec.get("request")))
    except BadRequestError:
        return  # validation says it
    if MASTERS in asked.groups:
        why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        raise errors.forbidden(_RESOURCE, GROUP, obj["metadata"]["name"], why)


def _update(_cluster: LogicalCluster, obj: JSONObject, old: JSONObject, _user: User) -> None:
    obj["spec"] = old["spec"]  # a request is approved as it was made


def _status(cluster: LogicalCluster, change: StatusChange) -> None:
    """Let each endpoint say what it is for, by who may."""
    new, old = change.new.get("status") or {}, change.old.get("status") or {}
    status: JSONObject = {**(old if change.endpoint == "approval" else new)}
    status.pop("conditions", None)
    if conditions := [_timed(cluster, each, old) for each in new.get("conditions") or ()]:
        status["conditions"] = conditions
    if status or "status" in change.new:
        change.new["status"] = status
    if change.endpoint == "approval":
        _check_right(cluster, change, "approve")
        return
    known = {each["type"] for each in old.get("conditions") or ()}
    added = [each.get("type") for each in conditions if each.get("type") in _DECISIONS and each["type"] not in known]
    if added:
        why = f"updates may not add a condition of type {causes.quoted(str(added[0]))}"
        name = change.old["metadata"]["name"]
        raise errors.invalid("CertificateSigningRequest", GROUP, name, [causes.forbidden("status.conditions", why)])
    if status != old:
        _check_right(cluster, change, "sign")


def _timed(cluster: LogicalCluster, said: JSONObject, old: JSONObject) -> JSONObject:
    now = cluster.timestamp()
    before = next((each for each in old.get("conditions") or () if each["type"] == said.get("type")), None)
    since = before["lastTransitionTime"] if before and before.get("status") == said.get("status") else now
    return {"lastUpdateTime": now, **said, "lastTransitionTime": said.get("lastTransitionTime") or since}


def _check_right(cluster: LogicalCluster, change: StatusChange, verb: str) -> None:
    signer = change.old["spec"]["signerName"]
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        asked = Attributes(user=change.user, verb=verb, group=GROUP, resource="signers", name=name)
        if cluster.authorizer.authorize(asked).allowed:
            return
    why = f"user not permitted to {verb} requests with signerName {causes.quoted(signer)}"
    raise errors.forbidden(_RESOURCE, GROUP, change.old["metadata"]["name"], why)


def _check(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    found = _check_spec(new["spec"]) if old is None else []
    conditions = (new.get("status") or {}).get("conditions") or ()
    types = [each["type"] for each in conditions]
    for index, each in enumerate(conditions):
        if each["type"] in _FINAL and each.get("status") != "True":
            path = f"status.conditions[{index}].status"
            found.append(causes.not_supported(path, each.get("status", ""), ["True"]))
    if APPROVED in types and DENIED in types:
        index = max(types.index(APPROVED), types.index(DENIED))
        why = "Approved and Denied conditions are mutually exclusive"
        found.append(causes.invalid(f"status.conditions[{index}].type", types[index], why))
    before = ((old or {}).get("status") or {}).get("conditions") or ()
    for kind in _FINAL:
        if kind not in types and any(each["type"] == kind for each in before):
            found.append(
                causes.forbidden(
                    "status.conditions", f"updates may not remove a condition of type {causes.quoted(kind)}"
                )
            )
    return found


def _check_spec(spec: JSONObject) -> list[Cause]:
    found: list[Cause] = []
    try:
        certificate_requests.load(_pem(spec.get("request")))
    except BadRequestError as error:
        found.append(causes.invalid("spec.request", spec.get("request"), str(error)))
    usages, signer, seconds = spec.get("usages") or [], spec.get("signerName") or "", spec.get("expirationSeconds")
    if not usages:
        found.append(causes.required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            found.append(causes.not_supported(f"spec.usages[{index}]", usage, sorted(_USAGES)))
        elif usage in usages[:index]:
            found.append(causes.duplicate(f"spec.usages[{index}]", usage))
    if not signer:
        found.append(causes.required("spec.signerName"))
    elif signer == _LEGACY:
        found.append(
            causes.invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
        )
    elif not _SIGNER.fullmatch(signer):
        found.append(
            causes.invalid(
                "spec.signerName",
                signer,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            )
        )
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        found.append(
            causes.invalid(
                "spec.expirationSeconds",
                seconds,
                f"may not specify a duration less than {_SHORTEST_SECONDS} seconds (10 minutes)",
            )
        )
    return found


def _pem(encoded: object) -> bytes:
    try:
        return base64.b64decode(str(encoded or ""), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequestError("the request is not base64") from None


STRATEGIES = {
    f"{_RESOURCE}.{GROUP}": Strategy(
        prepare_create=_create,
        prepare_update=_update,
        status_endpoints=("status", "approval"),
        prepare_status=_status,
        validate=_check,
    )
}
