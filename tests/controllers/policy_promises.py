"""What hub and agents promise each other about one replica, from one version of it to the next.

A write of either of them is made to the version that its writer has seen. So nothing here asks who could have known
what: a promise is kept by two versions that follow each other, or it is broken.
"""

import json

from echelon.api.base import JSONObject
from echelon.engine.policy.names import EVENTS_ANNOTATION
from tests.controllers.policy_content import (
    content_of,
    is_held,
    is_of_another_agent,
    notes_of,
    reports_of,
    said_of,
)

HUB_WORDS, VERDICTS = ("ToApply", "Progressing", "TimeOut"), ("Succeeded", "Failed")


def broken_by_release(before: JSONObject | None, now: JSONObject) -> str | None:
    """A release is of a replica that had the same to look at, and said so to everybody."""
    if before is None or content_of(before["spec"]) != content_of(now["spec"]).held:
        return "it had something else, or nothing, to look at"
    if said_of(before) != "ToApply" and not is_of_another_agent(before):
        return f"it said {said_of(before) or 'nothing'} before, and not ToApply"
    noted = json.loads(notes_of(now).get(EVENTS_ANNOTATION) or "{}")
    known = {*reports_of(before).items(), *json.loads(notes_of(before).get(EVENTS_ANNOTATION) or "{}").items()}
    return "reports are noted that there were not" if noted.items() - known else None


def broken_by_words(before: JSONObject, now: JSONObject) -> str | None:
    """The hub says of a replica what its spec says, and leaves verdicts, and agents of others, alone."""
    cluster, word = now["metadata"]["namespace"], said_of(now)
    if is_of_another_agent(before):
        return f"the hub says {word} of {cluster}, whose agent takes it away again"
    if (word == "ToApply") is not is_held(now):
        return f"the hub says {word} of {cluster}, which is {'' if is_held(now) else 'not '}held"
    if is_held(now) and content_of(now["spec"]).action != "inform":
        return f"{cluster} is held, and enforces"
    return None


def broken_by_agent(before: JSONObject, now: JSONObject) -> str | None:
    """An agent gives a verdict on what it has evaluated, where somebody waits for one, and on nothing else."""
    cluster, standing, word = now["metadata"]["namespace"], said_of(before), said_of(now)
    if word == standing or is_of_another_agent(now):
        return None
    if word not in VERDICTS:
        return f"the agent of {cluster} says {word or 'nothing'}"
    if is_held(now) or standing in ("", "ToApply"):
        return f"the agent of {cluster} says {word} before its turn"
    if now["status"].get("observedGeneration") != now["metadata"]["generation"]:
        return f"the agent of {cluster} says {word} of what it has not evaluated"
    if (standing, word) == ("TimeOut", "Failed"):
        return f"the agent of {cluster} says that what timed out has failed"
    return None
