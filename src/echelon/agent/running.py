"""Runs families of reconcilers with the informers that they share."""

import asyncio
from collections.abc import Sequence
from random import Random

from echelon.agent.context import AgentContext, Family, Runnable
from echelon.agent.member_kinds import ensure_served


async def run_families(context: AgentContext, families: Sequence[Family], *others: Runnable) -> None:
    """Work until cancelled; the first failure that nobody handled ends everything."""
    jitter = Random(context.cluster)  # noqa: S311 - agents of different clusters must not ask in step, that is all
    for family in families:
        for kind in family.member_kinds:
            await ensure_served(context.member, kind, jitter)
    try:
        async with asyncio.TaskGroup() as group:
            for other in others:
                group.create_task(other.run(), name=other.name)
            for informer in context.informers:
                group.create_task(informer.run(), name=f"informer of {informer.kind.plural}")
            for family in families:
                for controller in family.controllers:
                    group.create_task(controller.run(), name=controller.name)
    finally:
        await context.object_watches.close()
