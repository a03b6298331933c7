"""Making pods and revisions for workloads."""

from echelon.api.base import JSONObject
from echelon.fleet.member.cluster_index import PODS, REVISIONS, reference_to
from echelon.fleet.member.containers import scheduled
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import news
from echelon.fleet.member.decide.revisions import template_hash
from echelon.hub.storage.store import Entry, Key


async def make_pod(context: MemberContext, owner: JSONObject, template: JSONObject, name: str, **spec: object) -> None:
    """Create a pod of a workload. A name that ends with a dash is completed; `spec` is what only this pod has."""
    namespace, meta = owner["metadata"]["namespace"], template.get("metadata") or {}
    own: JSONObject = {"ownerReferences": [reference_to(owner)]}
    own |= {part: meta[part] for part in ("labels", "annotations") if meta.get(part)}
    if name.endswith("-"):
        own["generateName"] = name
        name = free_name(context, namespace, name)
    wanted = template.get("spec") or {}
    content = {"spec": {**wanted, **spec} if spec else wanted}
    if context.profile.brief and (node := context.index.node_for(content["spec"], meta)):
        content["spec"] = {**content["spec"], "nodeName": node}
        parts = {"status": scheduled(content, node, context.cluster.timestamp())}
    else:
        parts = {}
    await context.writer.create(Key(PODS, namespace, name), content, own, **parts)
    await context.breathe()


def free_name(context: MemberContext, namespace: str, prefix: str) -> str:
    """Return a generated name that no pod has."""
    while True:
        name = context.cluster.generated_name(prefix)
        if context.writer.latest(Key(PODS, namespace, name)) is None:
            return name


async def delete_pods(context: MemberContext, namespace: str, names: tuple[str, ...]) -> None:
    """Delete pods by name."""
    for name in names:
        entry = context.writer.latest(Key(PODS, namespace, name))
        if entry is not None:
            context.tell(news.of_deletion(entry.object))
            await context.writer.delete(entry, grace=0 if context.profile.brief else None)
            await context.breathe()


async def keep_revision(context: MemberContext, owner: JSONObject, *, limit: int, used: set[str]) -> str:
    """Return the revision of a workload's template, by its hash; it is stored, and the oldest unused ones go."""
    template = owner["spec"]["template"]
    revision = template_hash(template)
    present = revisions_of(context, owner)
    newest = max((each.object["revision"] for each in present.values()), default=0)
    mine = present.get(revision)
    if mine is None:
        meta = owner["metadata"]
        key = Key(REVISIONS, meta["namespace"], f"{meta['name']}-{revision}")
        content = {"revision": newest + 1, "data": {"spec": {"template": template}}}
        labels = {**(template.get("metadata") or {}).get("labels", {}), "controller-revision-hash": revision}
        await context.writer.create(key, content, {"labels": labels, "ownerReferences": [reference_to(owner)]})
    elif mine.object["revision"] != newest:
        await context.cluster.store.put(mine.key, {**mine.object, "revision": newest + 1}, expected=mine.revision)
    idle = [each for name, each in present.items() if name not in used and name != revision]
    idle.sort(key=lambda each: each.object["revision"])
    for each in idle[: max(0, len(idle) - limit)]:
        await context.writer.delete(each)
    return revision


def revisions_of(context: MemberContext, owner: JSONObject) -> dict[str, Entry]:
    """Return the stored revisions of a workload, by hash."""
    uid = owner["metadata"]["uid"]
    entries = context.cluster.store.list(REVISIONS, owner["metadata"]["namespace"]).entries
    return {
        each.labels.get("controller-revision-hash", ""): each
        for each in entries
        if any(ref["uid"] == uid for ref in each.object["metadata"].get("ownerReferences") or ())
    }


def template_of(context: MemberContext, owner: JSONObject, revision: str) -> JSONObject:
    """Return the template of a revision; the present one if it is no longer known."""
    entry = revisions_of(context, owner).get(revision)
    template: JSONObject = entry.object["data"]["spec"]["template"] if entry else owner["spec"]["template"]
    return template


async def report(context: MemberContext, entry: Entry, status: JSONObject) -> None:
    """Write a status if it says something new."""
    if status != (entry.object.get("status") or {}):
        await context.writer.replace(entry, status=status)
