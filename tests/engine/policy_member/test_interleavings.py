"""Copying, making objects, evaluating and reporting happen in any order; a verdict comes only after all of them.

The race: the copy says enforce already, its object does not yet, and still shows what it found when it only looked.
"""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.policy_member.copies import in_step
from echelon.engine.policy_member.documents import PolicyDocument, ReplicaStatus
from echelon.engine.policy_member.verdict import judge, judge_template
from tests.engine.policy_member.world import HELD, Cluster, policy, template

TIME = "2026-01-01T00:00:00Z"
STEPS = ("change", "hold", "release", "time out", "copy", "objects", "evaluate", "drift", "report")


@dataclass
class Story:
    """A hub, a cluster, a controller that evaluates, and an agent that reports, each of them a step at a time."""

    broken: bool  # whether enforcing never helps
    value: int = 1
    generation: int = 1
    held: bool = True
    said: str = "ToApply"
    observed: int = 0
    here: Cluster = field(default_factory=lambda: Cluster(policy(template(value="0"), held=True)))
    on_cluster: str = ""  # what the cluster really has
    changed: bool = False
    evaluated: tuple[str, bool] | None = None  # the value and whether it was enforced, at the last evaluation
    seen: str = ""  # the verdict of that

    @property
    def replica(self) -> PolicyDocument:
        found = policy(template(value=str(self.value)), held=self.held)
        meta = msgspec.structs.replace(found.metadata, generation=self.generation)
        status = ReplicaStatus(
            rollout_status=self.said, rollout_last_transition_time=TIME, observed_generation=self.observed
        )
        return msgspec.structs.replace(found, metadata=meta, status=status)

    def take(self, step: str) -> None:
        if step == "change":
            self.value, self.held, self.said = self.value + 1, True, "ToApply"
            self.generation += 1
        elif step == "hold" and not self.held:
            self.held, self.said = True, "ToApply"
            self.generation += 1
        elif step == "release" and self.held:
            self.held, self.said = False, "Progressing"
            self.generation += 1
        elif step == "time out" and self.said == "Progressing":
            self.said = "TimeOut"
        elif step == "copy":
            self.here.receive(self.replica)
        elif step == "objects":
            self.here.sync(1)
        elif step == "evaluate" and self.here.children:
            self.evaluate()
        elif step == "drift":
            self.on_cluster = ""
        elif step == "report":
            self.report()

    def evaluate(self) -> None:
        child = self.here.child()
        value = child.spec["object-templates"][0]["objectDefinition"]["data"]["value"]
        self.changed = False
        fine = self.on_cluster == value
        if not fine and child.enforced and not self.broken:
            self.on_cluster, self.changed = value, True
            # What was repaired is first told as a violation, and counts as one until the next look.
        self.here.report("Compliant" if fine else "NonCompliant")
        self.evaluated, self.seen = (value, child.enforced), "Compliant" if fine else "NonCompliant"

    def report(self) -> None:
        (state,) = self.here.plan().states
        judged = judge_template(state, changed=self.changed)
        replica = self.replica
        found = judge(replica, [judged], TIME, in_step=in_step(replica, self.here.policy))
        if found.differs_from(replica) or found.observed_generation == self.generation != self.observed:
            assert self.evaluated == (str(self.value), not self.held), "content that was never evaluated"
        if found.differs_from(replica):
            assert not self.held
            assert self.said not in ("", "ToApply")
            assert self.said != "TimeOut" or found.rollout_status == "Succeeded"
            assert (found.rollout_status == "Succeeded") == (self.seen == "Compliant")
            assert found.rollout_status != "Failed" or not self.changed
            assert found.rollout_status != "Failed" or self.broken, "a failure that no evaluation of this content saw"
        self.said, self.observed = found.rollout_status, found.observed_generation
        assert HELD not in replica.metadata.annotations or self.said == replica.status.rollout_status


@given(st.lists(st.sampled_from(STEPS), max_size=60), st.booleans())
def test_no_order_of_steps_leads_to_a_verdict_about_anything_else(steps: list[str], broken: bool) -> None:
    story = Story(broken)
    for step in steps:
        story.take(step)


@given(st.lists(st.sampled_from(STEPS), max_size=30), st.booleans())
def test_whatever_happened_before_a_quiet_release_ends_in_the_right_verdict(steps: list[str], broken: bool) -> None:
    story = Story(broken)
    for step in (*steps, "change", "release", *("copy", "objects", "evaluate", "report") * 3):
        story.take(step)
    assert story.said == ("Failed" if broken else "Succeeded")
    assert story.observed == story.generation


def test_the_race_between_the_copy_and_the_object_yields_no_failure() -> None:
    story = Story(broken=False)
    for step in ("copy", "objects", "evaluate", "report", "release", "copy", "report"):
        story.take(step)
    assert (story.said, story.seen) == ("Progressing", "NonCompliant")
    for step in ("objects", "report", "evaluate", "report"):
        story.take(step)
    assert story.said == "Progressing"
    for step in ("evaluate", "report"):
        story.take(step)
    assert story.said == "Succeeded"
