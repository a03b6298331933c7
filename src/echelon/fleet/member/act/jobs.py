"""The Job controller of a member."""

from echelon.fleet.member.act.making import delete_pods, make_pod, report
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import job
from echelon.fleet.member.decide.job import JobView
from echelon.hub.storage.store import Key


async def sync(context: MemberContext, key: Key) -> None:
    """Make and delete pods, or report."""
    entry = context.writer.latest(key)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    obj, spec, status = entry.object, entry.object["spec"], entry.object.get("status") or {}
    view = JobView(
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        backoff_limit=spec.get("backoffLimit", 6),
        pods=tuple(context.index.pods_of(obj["metadata"]["uid"])),
        suspended=bool(spec.get("suspend")),
        finished=job.finished(status),
    )
    step = job.decide(view)
    for _ in range(step.create):
        await make_pod(context, obj, spec["template"], f"{key.name}-")
    await delete_pods(context, key.namespace, step.delete)
    if not step:
        await report(context, entry, job.status(view, status, context.moment()))
