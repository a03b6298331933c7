"""The agent of one cluster: everything that it consists of, put together and run.

It may share a process with a thousand others, so what it does not need at the moment must not exist: a cluster that
has not been accepted has no caches, and a cluster without works has two idle streams and a timer.
"""

import asyncio
import logging
from random import Random

from echelon.agent.adopting import BY_WORK, Adoption
from echelon.agent.applying import Applier
from echelon.agent.discovery import ServedKinds
from echelon.agent.ending import Endings, Eviction, Unheard, is_ending
from echelon.agent.executor import ActAs, ExecutorCheck
from echelon.agent.passes import Passes
from echelon.agent.records import Records
from echelon.agent.registration import Registration
from echelon.agent.settings import MANAGER, Settings
from echelon.agent.sights import Sights
from echelon.agent.turns import Turns
from echelon.agent.works import Works, concerns_agent
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.crd import crd
from echelon.api.keys import Key
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK, AppliedManifestWork, ManifestWork
from echelon.engine.work.cleaning import Place
from echelon.engine.work.identity import Identity
from echelon.kube.client import Client, Documents
from echelon.kube.clock import Clock
from echelon.kube.controller import Controller
from echelon.kube.errors import AlreadyExists, ApiError, NotFound
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics

HUB_MANAGER = "echelon-agent"
_LAST_RETRY_SECONDS = 60.0
_CRD_PAUSE_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Agent:
    """Runs on behalf of one cluster: `hub` and `member` are clients with the agent's rights on either side.

    `server` is the member's server, asked for its version and kinds; `act_as` gives clients that act as others there.
    `agent_id` tells agents apart that work for several hubs on one cluster.
    """

    def __init__(
        self,
        hub: Client,
        member: Client,
        cluster: str,
        *,
        server: Documents,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        hub_hash: str,
        agent_id: str = "",
        settings: Settings | None = None,
        act_as: ActAs | None = None,
    ) -> None:
        chosen = settings or Settings()
        self._member = member
        self._works_seen = Informer(hub, MANIFEST_WORK, cluster, random=random, metrics=metrics)
        self._records_seen = Informer(
            member, APPLIED_MANIFEST_WORK, indexers={BY_WORK: _work_of}, random=random, metrics=metrics
        )
        self._registration = Registration(
            hub, member, server, cluster, clock=clock, random=random, settings=chosen, manager=HUB_MANAGER
        )
        passes = Passes(Applier(member, MANAGER), ServedKinds(server), ExecutorCheck(member, act_as))
        self._identity = identity = Identity(hub_hash, agent_id or hub_hash)
        adoption = Adoption(member, self._records_seen, identity, lambda record: passes.strays(record, ()), MANAGER)
        self._records = records = Records(member, self._records_seen, identity, adoption, MANAGER)
        self.sights = Sights(
            member, limit=chosen.max_watches, random=random, metrics=metrics, changed=self._object_changed
        )
        self._works = Works(
            hub,
            self._works_seen,
            records,
            passes,
            self.sights,
            clock=clock,
            random=random,
            settings=chosen,
            manager=HUB_MANAGER,
        )
        self._work_turns = Turns(
            "works",
            self._works.turn,
            random=random,
            metrics=metrics,
            at_once=chosen.works_at_once,
            last_retry=_LAST_RETRY_SECONDS,
        )
        self._ending_turns = Turns(
            "endings",
            Endings(records, passes).turn,
            random=random,
            metrics=metrics,
            at_once=1,
            last_retry=_LAST_RETRY_SECONDS,
        )
        eviction = Eviction(self._works_seen, self._records_seen, identity, chosen.eviction_grace_seconds)
        self._eviction = Controller(
            "eviction", eviction, member, clock, recorder=Unheard(), random=random, manager=MANAGER, metrics=metrics
        )
        self._eviction.watch(self._records_seen)
        self._eviction.watch(self._works_seen, keys=self._record_keys, when=_comes_or_goes)
        self._works_seen.on_change(self._work_changed)
        self._records_seen.on_change(self._record_changed)

    @property
    def informers(self) -> tuple[Informer[ManifestWork], Informer[AppliedManifestWork]]:
        """The caches without which nothing is applied."""
        return self._works_seen, self._records_seen

    async def run(self) -> None:
        """Join the fleet and work until cancelled."""
        cluster = await self._registration.join()
        self._identity.cluster_uid = cluster.metadata.uid
        await self._install()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._registration.run(), name="registration")
                group.create_task(self._works_seen.run(), name="informer of works")
                group.create_task(self._records_seen.run(), name="informer of records")
                group.create_task(self._eviction.run(), name="eviction")
                # What was applied has to be known before anything is applied or removed.
                await self._records_seen.wait_synced()
                group.create_task(self._work_turns.run(), name="works")
                group.create_task(self._ending_turns.run(), name="endings")
        finally:
            await self.sights.close()

    async def _install(self) -> None:
        """Let the cluster serve records, if it does not; until it does there is nothing else to do."""
        while True:
            try:
                await self._member.list(APPLIED_MANIFEST_WORK, limit=1)
            except NotFound:
                await self._define()
            except ApiError as error:
                _log.warning("the cluster cannot be asked for records: %s", error)
            else:
                return
            await asyncio.sleep(_CRD_PAUSE_SECONDS)

    async def _define(self) -> None:
        try:
            await self._member.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(APPLIED_MANIFEST_WORK))
        except AlreadyExists:
            pass
        except ApiError as error:
            _log.warning("the kind of records cannot be installed: %s", error)

    def _object_changed(self, place: Place) -> None:
        for work in self._works.users(place):
            self._work_turns.queue.add(work)
            record = self._records.get(self._records.name_of(work))
            if record is not None and is_ending(record):
                self._ending_turns.queue.add(record.metadata.name)

    def _work_changed(self, delta: Delta[ManifestWork]) -> None:
        if concerns_agent(delta):
            self._work_turns.queue.add(delta.object.metadata.name)

    def _record_changed(self, delta: Delta[AppliedManifestWork]) -> None:
        record = delta.object
        if delta.new is None or is_ending(record):
            self._ending_turns.queue.add(record.metadata.name)
        if self._means_applying(delta):
            self._works.apply_again(record.spec.manifest_work_name)
            self._work_turns.queue.add(record.spec.manifest_work_name)

    def _means_applying(self, delta: Delta[AppliedManifestWork]) -> bool:
        """Whether a work has lost its record, or there is one that it can take over."""
        if delta.new is None:
            return self._identity.is_of_this_hub(delta.object)
        work = self._works_seen.get(Key(self._works_seen.namespace, delta.new.spec.manifest_work_name))
        return delta.old is None and work is not None and self._identity.continues(work, delta.new)

    def _record_keys(self, work: ManifestWork) -> tuple[Key, ...]:
        name = work.metadata.name
        earlier = (each.metadata.name for each in self._records_seen.by_index(BY_WORK, name))
        return tuple(Key("", each) for each in dict.fromkeys((self._records.name_of(name), *earlier)))


def _work_of(record: AppliedManifestWork) -> tuple[str, ...]:
    return (record.spec.manifest_work_name,)


def _comes_or_goes(delta: Delta[ManifestWork]) -> bool:
    return delta.old is None or delta.new is None
