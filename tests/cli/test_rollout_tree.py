"""How a rollout looks: counts for what is fine, names and reasons for what is not."""

from collections import Counter

import pytest

from echelon.cli.rollout_tree import Screen, headline, tree
from echelon.cli.terminal import plain
from echelon.engine.placement.decisions import GroupKey
from echelon.rollouts.picture import (
    DONE,
    FAILED,
    MOVING,
    NO_CLUSTERS,
    ROLLING_OUT,
    SOAKING,
    WAITING,
    ClusterLine,
    GroupLine,
    ObjectLine,
    Picture,
)


def group(index: int, name: str, *clusters: ClusterLine, active: bool = False, message: str = "") -> GroupLine:
    return GroupLine("p", GroupKey(index, name), Counter(each.state for each in clusters), active, message, clusters)


def picture(*groups: GroupLine, state: str = ROLLING_OUT, message: str = "") -> Picture:
    counts: Counter[str] = Counter()
    for each in groups:
        counts.update(each.counts)
    return Picture("shop", "web", "5f7c9", 2, "2m", state, message, counts, groups)


def lines(of: Picture, *, everything: bool = False) -> list[str]:
    return [plain(line) for line in tree(of, everything=everything)]


BROKEN = ClusterLine(
    "eu-2",
    FAILED,
    "20s",
    "Deployment shop/web: 0 of 3 available",
    (ObjectLine("Deployment shop/web", FAILED, "no pod starts"), ObjectLine("Namespace shop", DONE, "")),
)
EUROPE = group(
    1, "eu", ClusterLine("eu-1", DONE, "", ""), BROKEN, ClusterLine("eu-3", SOAKING, "3s", "soaks 2s more"), active=True
)
AMERICA = group(2, "", *(ClusterLine(f"us-{n}", WAITING, "", "later") for n in range(9)), message="waits for eu (1)")


def test_what_is_fine_is_counted_and_what_is_not_is_named_with_its_reason() -> None:
    drawn = lines(picture(EUROPE, AMERICA))
    assert drawn[0] == "shop/web  revision 2 (5f7c9)  age 2m"
    assert drawn[1] == "rolling out: 1 of 12 done, 1 failed, 1 soaking, 9 waiting"
    assert drawn[3:] == [
        "├─ ✖ eu (1)  1 of 3 done, 1 failed, 1 soaking",
        "│  ├─ ✖ eu-2  failed 20s  Deployment shop/web: 0 of 3 available",
        "│  │  └─ ✖ Deployment shop/web  no pod starts",
        "│  └─ ◔ eu-3  soaking 3s  soaks 2s more",
        "└─ · group 2  0 of 9 done, 9 waiting  waits for eu (1)",
    ]


def test_what_the_line_of_a_cluster_tells_is_not_told_again_below_it() -> None:
    why = "0 of 3 available: ImagePullBackOff"
    objects = (ObjectLine("Deployment shop/web", FAILED, why), ObjectLine("Job shop/once", FAILED, "is late"))
    broken = ClusterLine("eu-2", FAILED, "", f"Deployment shop/web: {why}", objects)
    assert lines(picture(group(0, "eu", broken)))[4:] == [
        f"   └─ ✖ eu-2  failed  Deployment shop/web: {why}",
        "      └─ ✖ Job shop/once  is late",
    ]
    assert "      ├─ ✖ Deployment shop/web" in lines(picture(group(0, "eu", broken)), everything=True)


def test_everything_is_named_if_asked_for() -> None:
    drawn = "\n".join(lines(picture(EUROPE, AMERICA), everything=True))
    assert all(name in drawn for name in ("eu-1", "us-0", "us-8", "Namespace shop"))


def test_no_line_is_wider_than_the_terminal_and_no_word_of_a_reason_is_lost() -> None:
    reason = "waits for group canary (0): " + ", ".join(f"cluster-{n} is in flight" for n in range(20))
    drawn = lines(picture(group(0, "x", ClusterLine("c", MOVING, "4s", reason), active=True), message=reason))
    assert max(map(len, drawn)) <= 80
    assert reason.replace(" ", "") in "".join(drawn).replace(" ", "").replace("│", "")


def test_of_many_that_move_some_are_named_and_the_rest_are_counted() -> None:
    drawn = lines(picture(group(0, "", *(ClusterLine(f"c{n:02}", MOVING, "1s", "") for n in range(20)), active=True)))
    assert "14 more are moving" in drawn[-1]


@pytest.mark.parametrize(("done", "waiting"), [(1, 0), (0, 1), (1, 999), (999, 1), (500, 500)])
def test_the_bar_is_full_only_when_all_is_done_and_shows_what_there_is(done: int, waiting: int) -> None:
    counts = Counter({DONE: done, WAITING: waiting})
    bar = lines(Picture("n", "s", "r", 1, "1s", ROLLING_OUT, "", counts, ()))[2]
    assert len(bar.split(" ")[0]) == 40
    assert ("░" in bar) == bool(waiting)
    assert ("█" in bar) == bool(done)


def test_where_there_is_no_terminal_a_line_is_printed_whenever_something_changed() -> None:
    said: list[str] = []
    screen = Screen(said.append)
    for each in (picture(EUROPE), picture(EUROPE), picture(group(0, "", ClusterLine("a", DONE, "", "")))):
        screen.show(each)
    assert said == [headline(picture(EUROPE)), "rolling out, 1 of 1 done"]
    assert headline(picture(state=NO_CLUSTERS)) == "no clusters"
