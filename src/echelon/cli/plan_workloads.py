"""What a federated workload would do: its binding and all that its controller writes, walked with foreseen members."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.karmada import RESOURCE_BINDING, WORK
from echelon.api.kinds import Kind
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.cli.plan_fleet import FleetPlan
from echelon.engine.align import Interpreter
from echelon.engine.forecast.model import Assumptions, Forecast
from echelon.engine.forecast.workload_course import Member, forecast_workload
from echelon.engine.rollout.subject import Subject
from echelon.engine.workload.names import BINDING_LABEL, execution_namespace
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView
from echelon.fleet.member.foreseen import ForeseenWorkload
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound
from echelon.rollouts.overrides import read_override
from echelon.rollouts.workloads import read_workload_view


async def foresee_workload(
    client: Reader, document: JSONObject, subject: Subject, fleet: FleetPlan, assumed: Assumptions
) -> Forecast | None:
    """Return what a binding will do, with what is known of its clusters; None if that cannot be walked."""
    view, unseen = await read_workload_view(client, document)
    if unseen or subject.problem:
        return None
    try:
        override = await read_override(client, view.key.namespace, fleet.clusters)
    except Forbidden:  # what clusters get is not known then
        return None
    view = replace(
        view,
        leaving=subject.leaving,
        spared=subject.spared,
        max_removals=subject.max_removals,
        override=override,
    )

    def play(cluster: str, interpreter: Interpreter, manifest: JSONObject, at: datetime) -> Member:
        broken = ""
        if cluster in assumed.failing:
            new = Templates.of(view.template or {}, interpreter, view.revisions, view.override)
            broken = new.hash(new.revision, cluster)
        known = fleet.clusters.get(cluster)
        version = known.status.version.kubernetes if known is not None else ""
        family = interpreter.contract.family
        return ForeseenWorkload(family, manifest, at, takes=assumed.takes, broken=broken, version=version)

    return forecast_workload(view, await _documents(client, view, document), fleet.now, play, assumed)


async def _documents(
    client: Reader, view: WorkloadView, document: JSONObject
) -> Sequence[tuple[Kind[Any], JSONObject]]:
    """Return what the controller of a binding writes, as it is."""
    namespace, name = view.key
    found: list[tuple[Kind[Any], JSONObject]] = [(RESOURCE_BINDING, document)]
    with suppress(NotFound):  # of a workload of which nobody was ever granted anything
        found.append((ROLLOUT_LEDGER, await client.get(ROLLOUT_LEDGER.untyped(), name, namespace)))
    stored = await client.list(CONTROLLER_REVISION.untyped(), namespace, labels=f"{BINDING_LABEL}={namespace}.{name}")
    found += [(CONTROLLER_REVISION, each) for each in stored.items]
    for cluster in view.works:
        found.append((WORK, await client.get(WORK.untyped(), view.work_name, execution_namespace(cluster))))
    return found
