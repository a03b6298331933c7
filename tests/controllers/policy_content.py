"""What is in a policy and in its replicas, as somebody reads it who only knows the contract between hub and agents."""

import json
from dataclasses import dataclass, replace
from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.engine.policy.names import EVENTS_ANNOTATION, HELD_ANNOTATION
from tests.controllers.rollout_rules import WRITTEN
from tests.controllers.rollout_words import seconds

MARK = "example.com/edited"  # on replicas that people edit


@dataclass(frozen=True)
class Content:
    """Templates with an action: what a policy wants of clusters, or what one has."""

    body: str
    action: str

    @property
    def held(self) -> "Content":
        """The same, to be looked at."""
        return replace(self, action="inform")

    def __str__(self) -> str:
        versions = [_version(each) for each in json.loads(self.body)]
        return f"{'+'.join(versions)} ({self.action or 'own action'})"


def content_of(spec: JSONObject) -> Content:
    """Read a spec. Nothing here has dependencies."""
    return Content(json.dumps(spec["policy-templates"], sort_keys=True), spec.get("remediationAction", "").lower())


def is_enforceable(spec: JSONObject) -> bool:
    """Whether anything of a policy would be enforced."""
    own = {each["objectDefinition"]["spec"].get("remediationAction", "").lower() for each in spec["policy-templates"]}
    if action := spec.get("remediationAction", "").lower():
        return action == "enforce" and own != {"informonly"}
    return "enforce" in own


def notes_of(replica: JSONObject) -> dict[str, str]:
    """Return the annotations of a replica."""
    notes: dict[str, str] = replica["metadata"].get("annotations", {})
    return notes


def is_held(replica: JSONObject) -> bool:
    """Whether a replica says that it waits for its turn."""
    return notes_of(replica).get(HELD_ANNOTATION) == "true"


def is_ending(replica: JSONObject) -> bool:
    return "deletionTimestamp" in replica["metadata"]


def written_at(replica: JSONObject) -> float:
    return seconds(notes_of(replica)[WRITTEN])


def said_of(replica: JSONObject) -> str:
    """Return the rollout status that a replica carries."""
    word: str = replica.get("status", {}).get("rolloutStatus", "")
    return word


def reports_of(replica: JSONObject) -> dict[str, str]:
    """Return the latest report of each template."""
    return {
        each["templateMeta"]["name"]: each["history"][0]["eventName"]
        for each in replica.get("status", {}).get("details", [])
        if each.get("history")
    }


def is_of_another_agent(replica: JSONObject) -> bool:
    return bool(reports_of(replica)) and not replica["status"].get("observedGeneration")


class State(NamedTuple):
    """What a replica is at a moment, as far as its cluster's success goes."""

    identity: tuple[str, str, Content]  # which object, written when, with what
    verdict: str  # good, bad, or nothing; late, if it was about something that was written before


def state_of(replica: JSONObject) -> State:
    identity = replica["metadata"]["uid"], notes_of(replica).get(WRITTEN, ""), content_of(replica["spec"])
    return State(identity, verdict_of(replica))


def verdict_of(replica: JSONObject) -> str:
    """Return what an agent says of the content that a replica has: good, bad, or nothing yet."""
    status, spec = replica.get("status", {}), replica["spec"]
    if not is_of_another_agent(replica):
        late = status.get("observedGeneration") != replica["metadata"]["generation"]
        return "late" if late else {"Succeeded": "good", "Failed": "bad"}.get(said_of(replica), "")
    before, now = json.loads(notes_of(replica).get(EVENTS_ANNOTATION) or "{}"), reports_of(replica)
    if any(now.get(name, "") in ("", event) for name, event in before.items()):
        return ""
    if not now.keys() >= {each["objectDefinition"]["metadata"]["name"] for each in spec["policy-templates"]}:
        return ""
    compliant = status.get("compliant", "")
    good = compliant == "Compliant" or (compliant and not is_enforceable(spec))
    return "good" if good else {"NonCompliant": "bad"}.get(compliant, "")


def _version(template: JSONObject) -> str:
    wanted = template["objectDefinition"]["spec"]["object-templates"][0]["objectDefinition"]
    version: str = wanted["data"]["version"]
    return version
