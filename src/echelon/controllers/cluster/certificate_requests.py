"""Certificate requests as the engine judges them, and what a judgement writes; for controllers and for people."""

import base64
import binascii
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.certificates import APPROVED, CERTIFICATE_SIGNING_REQUEST, DENIED, CertificateSigningRequest
from echelon.api.cluster import ManagedCluster
from echelon.api.times import format_time
from echelon.controllers.cluster.leaving import is_leaving
from echelon.engine.conditions import find_condition
from echelon.engine.joining import Asked, Known
from echelon.engine.plan import Patch

JOINED = "ManagedClusterJoined"
_LONGEST_MESSAGE = 1024


def asked_of(request: CertificateSigningRequest) -> Asked:
    """Return who asks for what."""
    from echelon.kube import certificate_requests as pkcs10  # noqa: PLC0415 - few ever need it, and it is not small

    spec, unreadable, found = request.spec, "", pkcs10.Requested((), ())
    try:
        found = pkcs10.read(base64.b64decode(spec.request, validate=True))
    except (pkcs10.BadRequestError, binascii.Error, ValueError) as error:
        unreadable = f"it is no certificate request: {error}"
    return Asked(
        spec.username,
        tuple(spec.groups),
        spec.signer_name,
        tuple(spec.usages),
        found.names,
        found.groups,
        found.more,
        unreadable,
    )


def known_of(cluster: ManagedCluster | None) -> Known | None:
    """Return what the hub knows of a cluster."""
    if cluster is None:
        return None
    joined = find_condition(cluster.status.conditions, JOINED)
    return Known(
        accepted=cluster.spec.hub_accepts_client,
        joined=joined is not None and joined.status == "True",
        leaving=is_leaving(cluster),
    )


def decided(request: CertificateSigningRequest, *, approved: bool, reason: str, why: str, now: datetime) -> Patch:
    """Return what approves or denies a request that is still as it was seen."""
    when = format_time(now)
    said: JSONObject = {
        "type": APPROVED if approved else DENIED,
        "status": "True",
        "reason": reason,
        "message": why[:_LONGEST_MESSAGE],
        "lastUpdateTime": when,
    }
    conditions = [*msgspec.to_builtins(request.status.conditions), said]
    body: JSONObject = {"status": {"conditions": conditions}}
    return Patch.of(CERTIFICATE_SIGNING_REQUEST, request.metadata, body, "approval")
