"""A toy kind of rollout, the fourth: greetings. This is all that makes it one; clusters hold them in its status."""

from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import RolloutStrategy
from echelon.api.times import format_micro_time, parse_time
from echelon.engine import rollout
from echelon.engine.plan import Plan
from echelon.kube.client import Reader
from echelon.rollouts.kinds import RolloutKind
from echelon.rollouts.reading import Found, references, stored_revisions

GREETING = Kind("toys.example.com", "v1", "Greeting", "greetings", dict, short_names=("hi",), status=True)
OWNER, HASH = "toys.example.com/greeting", "toys.example.com/hash"


async def read(client: Reader, document: JSONObject, _: datetime) -> Found:
    meta, spec = msgspec.convert(document["metadata"], ObjectMeta), document["spec"]
    status, content = document.get("status", {}), {"text": spec["text"]}
    revision, strategy = rollout.revision_of(content), msgspec.convert(spec["strategy"], RolloutStrategy)
    subject = rollout.Subject(
        kind=GREETING,
        metadata=meta,
        noun="greeting",
        revision=revision,
        content=content,
        references=await references(client, meta.namespace, [(name, strategy) for name in spec["placements"]]),
        holdings={cluster: _holding(cluster, **held) for cluster, held in status.get("held", {}).items()},
        conditions=msgspec.convert(status.get("conditions", []), list[Condition]),
        revisions=await stored_revisions(
            client, meta, f"{OWNER}={meta.name}", lambda stored: rollout.read_revision(stored, HASH)
        ),
        revision_labels={OWNER: meta.name, HASH: revision},
    )
    return Found(subject)


def _holding(cluster: str, revision: str, phase: str, since: str) -> rollout.Holding:
    status = rollout.ClusterStatus(cluster, rollout.Phase(phase), parse_time(since))
    return rollout.Holding(cluster=cluster, revision=revision, status=status)


def plan(subject: rollout.Subject, now: datetime) -> Plan:
    state = rollout.roll_out(subject, now)
    new = {"revision": state.revision, "phase": "Progressing", "since": format_micro_time(now)}
    drafts = rollout.merge_conditions(
        subject.conditions, rollout.conditions_of(state), subject.metadata.generation, now
    )
    status = {"held": {each.cluster: new for each in state.cluster_decisions if each.starts}, "conditions": drafts}
    patch = rollout.patch_of(subject, {"status": msgspec.to_builtins(status)}, "status")
    writes = (*rollout.before_content(state), *rollout.announcements(state), *rollout.after_content(state, now))
    return Plan(writes, patch, rollout.look_again_after(state, now))


ENTRY = RolloutKind(lambda: GREETING, read)
