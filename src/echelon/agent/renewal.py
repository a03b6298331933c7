"""Keeps the certificate of a cluster good, and what it recognises the hub by.

A certificate is renewed when four fifths of its life are over, a little earlier or later by chance: clusters that
joined in one minute must not renew in one. There is then a fifth left for whatever fails; each failure is tried again
with growing pauses. The hub publishes its authorities, also those to come. They are believed when one of them is
trusted already: what is published is the authority of the server, which need not be that of its address.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from echelon.agent.certificate import CertificateRefused, Wanted, obtain
from echelon.agent.membership import MembershipCredentials, MembershipSecret
from echelon.api.core import CONFIG_MAP
from echelon.kube import certificate_requests
from echelon.kube.client import Client
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError

SHARE_OF_LIFE, CHANCE = 0.8, 0.05
LOOK_SECONDS = 600.0
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 1.0, 300.0
AUTHORITY_NAMESPACE, AUTHORITY_NAME, AUTHORITY_FIELD = "kube-public", "kube-root-ca.crt", "ca.crt"

_log = logging.getLogger(__name__)


class Renewal:
    """Renews the certificate of a membership for as long as its agent runs."""

    name = "certificate"

    def __init__(
        self,
        hub: Client,
        credentials: MembershipCredentials,
        kept: MembershipSecret,
        *,
        clock: Clock,
        random: Random,
        seconds: int | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._hub = hub
        self._credentials = credentials
        self._kept = kept
        self._clock = clock
        self._random = random
        self._seconds = seconds
        self._look_seconds = look_seconds
        self._chance = random.uniform(-CHANCE, CHANCE)
        self._authority_changed = False

    @property
    def due(self) -> datetime:
        """When the certificate is to be renewed."""
        life = self._credentials.membership.life
        if life is None:
            return datetime.min.replace(tzinfo=UTC)
        began, ends = life
        if self._authority_changed:
            return began
        return began + (ends - began) * (SHARE_OF_LIFE + self._chance)

    async def run(self) -> None:
        """Renew and follow until cancelled."""
        failures, told = 0, ""
        while True:
            try:
                await self._follow_authorities()
                if self._clock.now() >= self.due:
                    await self._renew()
                failures, told = 0, ""
                # Not until it is due: a machine may sleep, and clocks may be set.
                left = (self.due - self._clock.now()).total_seconds()
                pause = max(0.0, min(left, self._look_seconds))
            except (ApiError, CertificateRefused) as error:
                # That the hub does not answer is for the registration to say, until it matters here.
                if str(error) != told and self._clock.now() >= self.due:
                    told = str(error)
                    self._tell(told)
                pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 16), LAST_PAUSE_SECONDS)
                failures += 1
            await asyncio.sleep(pause * self._random.uniform(0.8, 1.0) + 0.01)

    def _tell(self, why: str) -> None:
        held = self._credentials.membership
        until = f"{held.life[1]:%Y-%m-%d %H:%M} UTC" if held.life else "now"
        extra = {"cluster": held.cluster}
        _log.warning(
            "%s cannot renew its certificate, which is good until %s: %s", held.cluster, until, why, extra=extra
        )

    async def _renew(self) -> None:
        held = self._credentials.membership
        key = certificate_requests.read_key(held.next_key)
        if key is None:
            key = certificate_requests.new_key()
            held = replace(held, next_key=certificate_requests.key_pem(key))
            await self._kept.write(held)
            self._credentials.membership = held
        try:
            certificate = await obtain(
                self._hub, Wanted(held.cluster, held.agent, key, self._seconds), self._random, "the hub's controllers"
            )
        except CertificateRefused:
            # With the same key it would be the same request, which is refused for as long as it is kept.
            self._credentials.membership = replace(held, next_key=b"")
            raise
        renewed = replace(held, certificate=certificate, key=held.next_key, next_key=b"")
        await self._kept.write(renewed)
        self._credentials.membership, self._authority_changed = renewed, False
        self._chance = self._random.uniform(-CHANCE, CHANCE)
        until = f"{renewed.life[1]:%Y-%m-%d %H:%M} UTC" if renewed.life else "unknown"
        extra = {"cluster": held.cluster}
        _log.info("%s has renewed its certificate, which is good until %s", held.cluster, until, extra=extra)

    async def _follow_authorities(self) -> None:
        """Take over what the hub publishes, if it is about what is trusted already."""
        held = self._credentials.membership
        if not held.authority:
            return  # those of the machine are trusted, and they are kept by others
        try:
            published = await self._hub.get(CONFIG_MAP, AUTHORITY_NAME, AUTHORITY_NAMESPACE)
        except ApiError as error:
            if error.status_code not in (403, 404):
                raise
            return  # a hub need not publish anything
        known, found = _certificates(held.authority), _certificates(published.data.get(AUTHORITY_FIELD, "").encode())
        if not found or found == known or not set(found) & set(known):
            return
        followed = replace(held, authority=b"".join(found))
        await self._kept.write(followed)
        self._credentials.membership = followed
        # Whoever signs may have changed along with it, and what the former one signed will not be taken for ever.
        self._authority_changed = found[0] != known[0]
        extra = {"cluster": held.cluster}
        _log.info(
            "%s follows the hub to other certificate authorities, %d of them", held.cluster, len(found), extra=extra
        )


def _certificates(pem: bytes) -> Sequence[bytes]:
    """Return the certificates of a bundle, each in the one form that can be compared; nothing if it is none."""
    try:
        return [each.public_bytes(Encoding.PEM) for each in x509.load_pem_x509_certificates(pem)]
    except ValueError:
        return []
