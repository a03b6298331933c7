"""What a PodCliqueSet would do with its pods: read with the rights of whoever asks, and walked."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from echelon.engine.forecast.clique_course import forecast_set
from echelon.engine.forecast.model import Assumptions, Forecast
from echelon.engine.pod_clique.names import PART_OF
from echelon.kube.client import Reader

_AROUND: tuple[Kind[Any], ...] = (POD_CLIQUE_SCALING_GROUP, POD_CLIQUE, POD_GANG, CONTROLLER_REVISION, POD)


async def foresee_set(client: Reader, document: JSONObject, now: datetime, assumed: Assumptions) -> Forecast:
    """Return what a set will do. Raises Forbidden where its pods may not be seen."""
    meta = document["metadata"]
    label = f"{PART_OF}={meta['name']}"

    async def labelled(kind: Kind[Any]) -> Sequence[JSONObject]:
        return (await client.list(kind.untyped(), meta["namespace"], labels=label)).items

    found: list[tuple[Kind[Any], JSONObject]] = [(POD_CLIQUE_SET, document)]
    owners = {meta["uid"]}
    for kind, objects in zip(_AROUND, await asyncio.gather(*map(labelled, _AROUND)), strict=True):
        mine = [each for each in objects if not owners.isdisjoint(_owners(each))]
        owners |= {each["metadata"]["uid"] for each in mine}
        found += [(kind, each) for each in mine]
    return forecast_set(found, now, assumed)


def _owners(document: JSONObject) -> list[str]:
    return [each["uid"] for each in document["metadata"].get("ownerReferences") or ()]
