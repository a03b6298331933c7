"""What could stop a PodCliqueSet: pods that start together or not at all, pods that somebody has to delete."""

from collections.abc import Iterator, Sequence

from echelon.api.base import JSONObject
from echelon.engine.forecast.obstacles import Obstacle, Stopper
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.revisions import SetRevision
from echelon.engine.pod_clique.set_spec import SetSpec, Settings
from echelon.engine.rollout.durations import elapsed


def set_obstacles(document: JSONObject, revisions: Sequence[SetRevision] = ()) -> tuple[Obstacle, ...]:
    """Return what could stop a set, or already does."""
    accepted = accept(document, revisions, Settings(init_image="any"))
    if isinstance(accepted, NotAccepted):
        return (Obstacle(Stopper.MISCONFIGURED, accepted.message),)
    return tuple(_of(accepted.spec))


def _of(spec: SetSpec) -> Iterator[Obstacle]:
    together = sum(each.min_available for each in spec.standalone) + sum(
        each.min_available * sum(spec.clique[name].min_available for name in each.clique_names) for each in spec.groups
    )
    text = f"a replica starts only when {together} of its pods can be scheduled together"
    yield Obstacle(Stopper.GANG, text)
    if spec.on_delete:
        text = "updateStrategy OnDelete: what runs stays as it is until somebody deletes pods, one by one"
        yield Obstacle(Stopper.ON_DELETE, text)
        return
    limits = {each.progress_deadline for each in spec.standalone} | {each.progress_deadline for each in spec.groups}
    if limits:
        given_up = f"what is not ready {elapsed(max(limits))} after it was replaced is given up with a Warning"
        yield Obstacle(Stopper.NO_BUDGET, f"nothing stops a template that does not work: {given_up}, and the next goes")
