"""What a clique waits for: the base gang's cliques in the base gang, its own replica's beyond it."""

import pytest

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.names import STANDALONE, CliqueKey
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.startup import parents
from tests.engine.pod_clique.sets import a_set, clique, group, spec_of

EXPLICIT = "CliqueStartupTypeExplicit"
IN_ORDER = "CliqueStartupTypeInOrder"
ALONE = ("", STANDALONE)


def waits_for(body: JSONObject, name: str, where: tuple[str, int] = ALONE, replica: int = 0) -> list[str]:
    found = parents(spec_of(body), "w", CliqueKey(replica, *where, name))
    return [f"{each.name}:{each.min_available}" for each in found]


def in_order(**more: int) -> JSONObject:
    groups = [group("g", "b", "c", replicas=3, **more)]
    return a_set(clique("a", 3, minAvailable=2), clique("b"), clique("c"), groups=groups, cliqueStartupType=IN_ORDER)


def test_the_first_clique_waits_for_nobody() -> None:
    assert waits_for(in_order(), "a") == []


def test_a_clique_of_the_base_gang_waits_for_the_minimum_of_a_standalone_one() -> None:
    assert waits_for(in_order(), "b", ("g", 0)) == ["w-0-a:2"]
    assert waits_for(in_order(), "b", ("g", 0), replica=3) == ["w-3-a:2"]


def test_a_clique_of_the_base_gang_waits_for_every_replica_that_must_be_up() -> None:
    assert waits_for(in_order(minAvailable=2), "c", ("g", 0)) == ["w-0-g-0-b:1", "w-0-g-1-b:1"]
    assert waits_for(in_order(minAvailable=2), "c", ("g", 1)) == ["w-0-g-0-b:1", "w-0-g-1-b:1"]


def test_a_clique_beyond_the_minimum_waits_within_its_own_replica_only() -> None:
    assert waits_for(in_order(minAvailable=2), "c", ("g", 2)) == ["w-0-g-2-b:1"]
    assert waits_for(in_order(minAvailable=2), "b", ("g", 2)) == []


def test_a_clique_beyond_the_minimum_waits_for_no_other_group() -> None:
    groups = [group("g", "a", replicas=2), group("h", "b", replicas=2)]
    body = a_set(clique("a"), clique("b"), groups=groups, cliqueStartupType=IN_ORDER)
    assert waits_for(body, "b", ("h", 0)) == ["w-0-g-0-a:1"]
    assert waits_for(body, "b", ("h", 1)) == []


def test_an_explicit_order_is_the_one_that_is_declared() -> None:
    body = a_set(clique("a", startsAfter=["c"]), clique("b"), clique("c"), cliqueStartupType=EXPLICIT)
    assert waits_for(body, "a") == ["w-0-c:1"]
    assert waits_for(body, "c") == []


def test_parents_are_found_by_their_whole_names() -> None:
    # Grove looks for names that end alike, and its container for names that begin alike.
    cliques = (clique("worker", 2), clique("gpu-worker", 3), clique("z", startsAfter=["gpu-worker"]))
    assert waits_for(a_set(*cliques, cliqueStartupType=EXPLICIT), "z") == ["w-0-gpu-worker:3"]


@pytest.mark.parametrize("startup", ["", "CliqueStartupTypeAnyOrder"])
def test_a_set_without_an_order_waits_for_nobody(startup: str) -> None:
    # Grove reports an error if the type is not given.
    body = a_set(clique("a"), clique("b"), cliqueStartupType=startup)
    assert waits_for(body, "b") == []


def test_an_image_is_needed_to_wait() -> None:
    assert isinstance(accept(in_order(), (), Settings()), NotAccepted)
