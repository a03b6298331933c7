"""Where a world with a policy must end: every cluster has what it is to have, and the policy tells how it is."""

import math
from collections.abc import Collection, Iterator, Mapping

from echelon.api.base import JSONObject
from echelon.api.policy import ROOT_LABEL
from echelon.fleet.simulation import World
from tests.controllers.policy_content import (
    MARK,
    content_of,
    is_ending,
    is_held,
    is_of_another_agent,
    said_of,
    verdict_of,
)
from tests.controllers.policy_observer import Observer
from tests.controllers.policy_rules import Scene
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import Found, condition

WORDS = {
    "to be written": "ToApply",
    "progressing": "Progressing",
    "done": "Succeeded",
    "soaking": "Succeeded",
    "failed": "Failed",
    "timed out": "TimeOut",
}
COPIED = ("owner", "release", "note")  # labels and annotations that people give to the policy


def observer_of(world: World) -> Observer:
    observer: Observer = world.memory["observer"]
    return observer


def everything_is_as_it_should_be(world: World) -> str | None:
    """Tell what is not as it has to be at rest."""
    observer = observer_of(world)
    mute = [name for name, each in observer.register.refusals.items() if each.until == math.inf]
    return "; ".join(_wrongs(observer.scene_at_rest(), observer.now, mute)) or None


def counted(world: World, wrong: str | None) -> str | None:
    """Remember how a world ended, if nothing is wrong with it; return what is."""
    if wrong is None:
        scene, now = observer_of(world).scene_at_rest(), observer_of(world).now
        homes = scene.selection.homes
        words = [scene.found(each, now).word for each in homes]
        complete = bool(homes) and all(each == "done" for each in words) and not scene.aborted
        SEEN[f"end: {'complete' if complete else scene.blocked(now) if homes else 'nowhere'}"] += 1
        SEEN.update(f"end: a cluster is {each}" for each in words)
        SEEN["end: a cluster drifted"] += sum(
            word == "done" and verdict_of(scene.replicas[each]) == "bad"
            for each, word in zip(homes, words, strict=True)
        )
    return wrong


def _wrongs(scene: Scene, now: float, mute: Collection[str]) -> Iterator[str]:
    """`mute` are clusters for which the server never takes what is to be written, their status maybe."""
    if scene.policy is None:
        yield "the policy is gone"
        return
    if not scene.selection.settled:
        yield "the decisions are not settled"
    homes = scene.selection.homes
    # Where somebody took the label away, and nobody wants a replica, it is no replica any more, and told as that.
    left = [
        each
        for each, replica in scene.replicas.items()
        if each not in homes and not is_ending(replica) and ROOT_LABEL in replica["metadata"]["labels"]
    ]
    if left and not scene.words.paused:
        yield f"{left} have a replica, and nobody selects them"
    found = {cluster: scene.found(cluster, now) for cluster in homes}
    yield from _unkempt(scene, mute)
    if scene.puts_back:
        yield from _not_back(scene)
    else:
        yield from _idle(scene, found, now, mute)
        if not left:
            yield from _mistold(scene, found, now)
            yield from _miscounted(scene, found)
    reason = scene.blocked(now)
    if condition(scene.policy, "RolloutBlocked") != (str(reason != "NotBlocked"), reason):
        yield f"it is {reason}, and the policy says {condition(scene.policy, 'RolloutBlocked')}"
    done = not scene.aborted and not left and bool(homes) and all(one.word == "done" for one in found.values())
    if condition(scene.policy, "PlacementRolledOut")[0] != str(done):
        yield f"done is {done}, and the policy says {condition(scene.policy, 'PlacementRolledOut')}"


def _unkempt(scene: Scene, mute: Collection[str]) -> Iterator[str]:
    """Everything of a replica is the hub's, and is put back."""
    assert scene.policy is not None
    wanted = scene.policy["metadata"]
    for cluster in scene.selection.homes.keys() & scene.replicas.keys():
        replica, meta = scene.replicas[cluster], scene.replicas[cluster]["metadata"]
        if is_ending(replica) or cluster in scene.attempts or cluster in mute:
            continue
        if not scene.is_released(cluster) and not scene.is_waiting(cluster):
            continue  # what it has is none of this policy's, until it may be written
        for part in ("labels", "annotations"):
            expected = {name: each for name, each in wanted.get(part, {}).items() if name in COPIED}
            if {name: each for name, each in meta.get(part, {}).items() if name in (*COPIED, MARK)} != expected:
                yield f"the {part} of {cluster} are not the policy's"
        if ROOT_LABEL not in meta["labels"]:
            yield f"the replica of {cluster} is not labelled"
        if replica["spec"].get("rolloutStrategy") != scene.spec.get("rolloutStrategy"):
            yield f"the strategy of {cluster} is not the policy's"


def _idle(scene: Scene, found: Mapping[str, Found], now: float, mute: Collection[str]) -> Iterator[str]:
    """Whoever may get something has it."""
    for cluster, one in found.items():
        if cluster in scene.attempts or cluster in mute:
            continue
        if one.word == "to be written" and scene.why_not(cluster, scene.full(cluster), now) is None:
            yield f"{cluster} could start"
        if scene.in_turn and one.word == "to be written" and not scene.is_waiting(cluster):
            yield f"{cluster} has nothing to look at"
        replica = scene.replicas.get(cluster)
        if replica is None or is_ending(replica) or is_of_another_agent(replica):
            continue
        waits = scene.is_waiting(cluster)
        if not waits and not scene.is_released(cluster):
            continue
        if is_held(replica) is not waits or (said_of(replica) in ("ToApply", "")) is not waits:
            yield f"{cluster} says {said_of(replica)}, held {is_held(replica)}, and waiting is {waits}"
        if (said_of(replica) == "TimeOut") is not (one.word == "timed out"):
            yield f"{cluster} is {one.word}, and its replica says {said_of(replica)}"


def _not_back(scene: Scene) -> Iterator[str]:
    """An aborted revision is nowhere, if there is anything to go back to."""
    for cluster in scene.selection.homes:
        replica = scene.replicas.get(cluster)
        has_it = replica is not None and content_of(replica["spec"]) == scene.full(cluster, scene.back)
        if not has_it and cluster not in scene.attempts:
            yield f"aborted, and {cluster} does not have {scene.back}"


def _mistold(scene: Scene, found: Mapping[str, Found], now: float) -> Iterator[str]:
    """The policy lists exactly the clusters that have a replica, each as it is."""
    assert scene.policy is not None
    status = scene.policy.get("status", {})
    told = {each["clustername"]: each.get("rolloutStatus", "") for each in status.get("status", [])}
    expected = {each: WORDS[found[each].word] for each in sorted(scene.replicas) if each in found}
    if list(told.items()) != list(expected.items()):
        yield f"the clusters are {expected}, and the policy says {told}"
    own = (
        each
        for cluster, each in scene.replicas.items()
        if cluster in found or ROOT_LABEL in each["metadata"].get("labels", {})
    )
    states = {each.get("status", {}).get("compliant", "") for each in own}
    worst = next((each for each in ("NonCompliant", "Pending") if each in states), "")
    compliant = worst or ("Compliant" if states == {"Compliant"} else "")
    if status.get("compliant", "") != compliant:
        yield f"it is {compliant or 'unknown'}, and the policy says {status.get('compliant')}"
    if status.get("rolloutStatus", "") != (aggregate := _aggregate(scene, found, now)):
        yield f"the rollout is {aggregate or 'nothing'}, and the policy says {status.get('rolloutStatus')}"


def _aggregate(scene: Scene, found: Mapping[str, Found], now: float) -> str:
    words = {one.word for one in found.values()}
    if not words:
        return ""
    if scene.aborted or scene.walk(now).blocked() == "MaxFailuresExceeded":
        return "Failed"
    if words & {"to be written", "progressing", "soaking"}:
        return "Progressing"
    everywhere = scene.limits.kind == "All"
    return "Failed" if everywhere and words & {"failed", "timed out"} else "Succeeded"


def _miscounted(scene: Scene, found: Mapping[str, Found]) -> Iterator[str]:
    assert scene.policy is not None
    said: JSONObject = scene.policy.get("status", {}).get("rollout", {})
    names = {
        "toApply": "ToApply",
        "progressing": "Progressing",
        "succeeded": "Succeeded",
        "failed": "Failed",
        "timedOut": "TimeOut",
    }
    words = [WORDS[one.word] for one in found.values()]
    counted = {name: words.count(word) for name, word in names.items()}
    told = {name: said.get(name, 0) for name in names}
    if told != counted:
        yield f"there are {counted}, and the policy says {told}"
    if (condition(scene.policy, "ClustersTimedOut")[0] == "True") != ("TimeOut" in words):
        yield "the policy does not tell who timed out"
