"""Many members, one clock: a fleet for simulations, benchmarks and `echelon up`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.fleet_spec import profiles
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Profile
from echelon.fleet.member.timers import Timers
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers

# Gives a member its cluster: a hub that serves them over HTTP, for example, has its own way to make one.
ClusterFor = Callable[[str], Awaitable[LogicalCluster]]


@dataclass
class Fleet:
    """Members by name. Make one with `build`; `run` brings it to life."""

    members: dict[str, Member]
    timers: Timers
    keeps: bool  # whether the fleet looks after its clusters' garbage; a hub does so for its own
    _controllers: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    async def build(
        cls,
        wanted: str | Iterable[Profile],
        *,
        seed: int = 0,
        clock: Callable[[], datetime] | None = None,
        cluster_for: ClusterFor | None = None,
    ) -> "Fleet":
        """Make the members of a line such as "50 clusters; regions eu/us/ap", or of given profiles.

        Their clusters live in memory and serve the custom kinds of OpenKruise, unless `cluster_for` gives others.
        """
        made: dict[str, Member] = {}
        timers = Timers()
        for number, profile in enumerate(profiles(wanted, seed) if isinstance(wanted, str) else wanted):
            if cluster_for is not None:
                cluster = await cluster_for(profile.name)
            else:
                cluster = await clone_cluster(profile.name, clock=clock, seed=hash((seed, number)))
            made[profile.name] = Member(profile, cluster, timers)
        return cls(made, timers, keeps=cluster_for is None)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    async def start(self) -> None:
        """Bring all members to life."""
        for member in self.members.values():
            await member.start()
            if self.keeps:
                keeping = run_controllers(member.cluster)
                self._controllers.append(asyncio.create_task(keeping, name=f"hub controllers of {member.name}"))

    async def stop(self) -> None:
        """Stop all members; what is there stays as it is."""
        for member in self.members.values():
            member.stop()
        self.timers.clear()
        for task in self._controllers:
            task.cancel()
        if self._controllers:
            await asyncio.wait(self._controllers)
            self._controllers.clear()

    async def run(self) -> None:
        """Be alive until cancelled."""
        try:
            await self.start()
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()
