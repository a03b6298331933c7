"""Asks the hub for a certificate and waits until it is there.

A request is named after its key and its subject: an agent that ends while it waits finds the same request again, and
two requests of one name are one. Whoever waits for a person waits for hours, so the hub is asked seldom, and people
are told when something changes and not each time.
"""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from echelon.api.base import JSONObject
from echelon.api.certificates import (
    APPROVED,
    CERTIFICATE_SIGNING_REQUEST,
    CLIENT_SIGNER,
    DENIED,
    FAILED,
    CertificateSigningRequest,
)
from echelon.engine.joining import CLUSTER_NAME_LABEL, USAGES, agent_groups, agent_user
from echelon.kube import certificate_requests
from echelon.kube.client import Client
from echelon.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unauthorized

FIRST_PAUSE_SECONDS = 0.25
LAST_PAUSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class CertificateRefused(Exception):
    """The hub said no, and trying again would not change that; the text says what would."""


@dataclass(frozen=True)
class Wanted:
    """Which certificate is asked for."""

    cluster: str
    agent: str
    key: ec.EllipticCurvePrivateKey
    seconds: int | None = None  # for how long; as long as the hub has it, if nothing is said

    @property
    def user(self) -> str:
        """The name that it is to give."""
        return agent_user(self.cluster, self.agent)

    @property
    def name(self) -> str:
        """The name of the request."""
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return f"{self.cluster}-{hashlib.sha256(public + self.user.encode()).hexdigest()[:16]}"

    @property
    def body(self) -> JSONObject:
        """The request."""
        pem = certificate_requests.make(self.key, self.user, agent_groups(self.cluster))
        spec: JSONObject = {
            "request": base64.b64encode(pem).decode(),
            "signerName": CLIENT_SIGNER,
            "usages": list(USAGES),
        }
        if self.seconds is not None:
            spec["expirationSeconds"] = self.seconds
        metadata = {"name": self.name, "labels": {CLUSTER_NAME_LABEL: self.cluster}}
        return {**CERTIFICATE_SIGNING_REQUEST.type_meta, "metadata": metadata, "spec": spec}


async def obtain(
    hub: Client, wanted: Wanted, random: Random, approver: str, hint: Callable[[str], str] = lambda why: why
) -> bytes:
    """Return the certificate, as PEM, when the hub has made it.

    `approver` is who has to approve it, `hint` says what a person can do about a refusal.
    """
    pause, told, about = FIRST_PAUSE_SECONDS, "", {"cluster": wanted.cluster}
    while True:
        try:
            found = await _asked(hub, wanted)
            if found.status.certificate:
                return base64.b64decode(found.status.certificate)
            why = _awaited(wanted, found, approver)
        except (Unauthorized, Forbidden) as error:
            raise CertificateRefused(hint(str(error))) from error
        except ApiError as error:
            why = f"cannot ask for a certificate yet: {error}"
        if why != told and pause > FIRST_PAUSE_SECONDS:  # what is answered at once need not be told
            _log.info("%s %s", wanted.cluster, why, extra=about)
            told = why
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LAST_PAUSE_SECONDS)


async def _asked(hub: Client, wanted: Wanted) -> CertificateSigningRequest:
    """Return the request, made if it is not there: nobody keeps requests for ever."""
    try:
        return await hub.get(CERTIFICATE_SIGNING_REQUEST, wanted.name)
    except NotFound:
        try:
            return await hub.create(CERTIFICATE_SIGNING_REQUEST, wanted.body)
        except AlreadyExists:
            return await hub.get(CERTIFICATE_SIGNING_REQUEST, wanted.name)


def _awaited(wanted: Wanted, found: CertificateSigningRequest, approver: str) -> str:
    """Say what a request waits for; raise `CertificateRefused` if that is nothing."""
    for kind in (DENIED, FAILED):
        if (said := found.decision(kind)) is not None:
            raise CertificateRefused(f"the hub refused the request {wanted.name}: {said.message or said.reason}")
    if found.decision(APPROVED) is not None:
        return f"waits for its certificate: {wanted.name} is approved and not signed yet"
    return f"waits for {approver} to approve its request {wanted.name}"
