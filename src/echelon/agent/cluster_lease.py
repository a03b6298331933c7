"""Sees to it that one agent works for a cluster: of two, the second says so and stops.

The lease of the cluster names who renews it, `MEMBER/PROCESS`: the uid of the cluster's `kube-system`, and a word for
the process. A renewal leaves the name alone and reads it in the answer, so it costs no request.

An agent that starts on the *same* member takes the lease at once, because the former holder is most likely its own
former life. If that one lives it finds another name at its next renewal, and takes the lease back: it had it first, as
`acquireTime` tells, of which a newcomer always takes a later one. The newcomer finds that at its own and stops.

If the holder is of *another* member, two clusters use one name, or the cluster was made anew. To work at once would put
one's workloads on the other. So the newcomer waits until the lease stood still for longer than renewals take, on its
own clock, and stops if it does not.
"""

import asyncio
import logging
from datetime import timedelta

from echelon.agent.context import AgentContext
from echelon.agent.settings import HUB_MANAGER
from echelon.api.base import JSONObject
from echelon.api.coordination import LEASE, Lease
from echelon.api.namespaces import NAMESPACE
from echelon.api.times import format_micro_time, parse_time
from echelon.engine.cluster_health import LEASE_NAME
from echelon.kube.client import MergePatch, WriteOptions
from echelon.kube.errors import ApiError, Conflict, NotFound

LOOK_SECONDS = 10.0
SLACK = 1.25  # of a renewal's time, until silence means that nobody renews
_RELEASE_SECONDS = 3.0

_log = logging.getLogger(__name__)


class AnotherAgent(Exception):
    """Somebody else works for the cluster, and did so first."""

    def __init__(self, cluster: str, holder: str, *, elsewhere: bool) -> None:
        member, _, process = holder.rpartition("/")
        what = f"on another cluster (whose kube-system is {member})" if elsewhere else "on this cluster"
        remedy = "give this cluster a name of its own" if elsewhere else "stop one of the two"
        super().__init__(f"another agent works for {cluster}, {process or holder} {what}; this one stops: {remedy}")


class ClusterLease:
    """The lease of a cluster, as one process of its agent has it."""

    def __init__(self, context: AgentContext, instance: str) -> None:
        self._hub = context.hub
        self._member = context.member
        self._cluster = context.cluster
        self._clock = context.clock
        self._instance = instance
        self._options = WriteOptions(field_manager=HUB_MANAGER)
        self._holder = ""  # our name, once the member's is known
        self._acquired = ""  # since when we have the lease; empty until we have
        self._sure_at = 0.0  # until then a former holder may take the lease back
        self._standing: tuple[str, float] = ("", 0.0)  # the version of a stranger's lease, and since when we see it

    @property
    def is_held(self) -> bool:
        """Whether the lease is ours, as far as we know."""
        return bool(self._acquired)

    @property
    def look_again_seconds(self) -> float:
        """After how long to renew at the latest: soon, while somebody may take the lease back."""
        unsure = not self._acquired or asyncio.get_running_loop().time() < self._sure_at
        return LOOK_SECONDS if unsure else float("inf")

    async def renew(self, seconds: int) -> None:
        """Renew the lease; raise `AnotherAgent` if it is somebody else's."""
        if not self._acquired:
            await self._acquire(seconds)
            return
        answer = await self._patch({"renewTime": self._now(), "leaseDurationSeconds": seconds})
        holder = answer.spec.holder_identity or ""
        if holder == self._holder:
            return
        theirs = (answer.spec.acquire_time, holder)
        if holder and theirs < (self._acquired, self._holder):
            raise AnotherAgent(self._cluster, holder, elsewhere=self._is_elsewhere(holder))
        if holder:
            extra = {"cluster": self._cluster}
            _log.warning("%s wants to work for %s, too; it stops when it sees this", holder, self._cluster, extra=extra)
        await self._patch({"holderIdentity": self._holder, "acquireTime": self._acquired})

    async def release(self) -> None:
        """Give the lease back, so that nobody has to wait for its end. Best effort: the process ends."""
        if not self._acquired:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                lease = await self._hub.get(LEASE, LEASE_NAME, self._cluster)
                if lease.spec.holder_identity == self._holder:
                    await self._patch({"holderIdentity": ""}, lease.metadata.resource_version)
        except (ApiError, TimeoutError) as error:
            _log.debug("the lease of %s was not given back: %s", self._cluster, error)

    async def _acquire(self, seconds: int) -> None:
        await self._know_the_member()
        spec: JSONObject = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": self._now(),
            "renewTime": self._now(),
        }
        loop = asyncio.get_running_loop()
        try:
            lease = await self._hub.get(LEASE, LEASE_NAME, self._cluster)
        except NotFound:
            body: JSONObject = {**LEASE.type_meta, "metadata": {"name": LEASE_NAME}, "spec": spec}
            await self._hub.create(LEASE, body, self._cluster, options=self._options)
            self._acquired, self._sure_at = spec["acquireTime"], loop.time()
            return
        holder = lease.spec.holder_identity or ""
        if holder != self._holder and self._is_elsewhere(holder) and self._may_live(lease, holder, seconds):
            return
        if (since := parse_time(lease.spec.acquire_time)) is not None and since >= self._clock.now():
            spec["acquireTime"] = format_micro_time(since + timedelta(microseconds=1))
        try:
            await self._patch(spec, lease.metadata.resource_version)
        except Conflict:
            return  # somebody renewed it just now; the next look is soon
        self._acquired = spec["acquireTime"]
        rivals = bool(holder) and holder != self._holder and "/" in holder
        self._sure_at = loop.time() + (SLACK * 2 * seconds if rivals else 0.0)

    def _may_live(self, lease: Lease, holder: str, seconds: int) -> bool:
        """Whether a holder elsewhere has not been silent for long enough; raise `AnotherAgent` if it lives."""
        version, now = lease.metadata.resource_version, asyncio.get_running_loop().time()
        known, since = self._standing
        if known and version != known:
            raise AnotherAgent(self._cluster, holder, elsewhere=True)
        if not known:
            self._standing = (version, now)
            extra = {"cluster": self._cluster}
            _log.warning(
                "%s is held by %s of another cluster; waits to see if it lives", self._cluster, holder, extra=extra
            )
            return True
        return now - since < SLACK * (lease.spec.lease_duration_seconds or seconds)

    def _is_elsewhere(self, holder: str) -> bool:
        """Whether a holder is of another member; one that does not say is not."""
        theirs, ours = holder.rpartition("/")[0], self._holder.rpartition("/")[0]
        return bool(theirs) and bool(ours) and theirs != ours

    async def _know_the_member(self) -> None:
        """Find out our name. A member that does not answer is no reason to call it dead, so it has to do without."""
        try:
            member = (await self._member.get(NAMESPACE, "kube-system")).metadata.uid
        except ApiError:
            member = ""
        self._holder = f"{member}/{self._instance}"

    async def _patch(self, spec: JSONObject, version: str = "") -> Lease:
        body: JSONObject = {"spec": spec, **({"metadata": {"resourceVersion": version}} if version else {})}
        return await self._hub.patch(LEASE, LEASE_NAME, MergePatch(body), self._cluster, options=self._options)

    def _now(self) -> str:
        return format_micro_time(self._clock.now())
