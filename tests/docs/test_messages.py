"""The page about messages has every reason that is written, and no other."""

import re

from tests.docs.pages import ROOT
from tests.docs.reasons import SOURCE, reasons

PAGE = ROOT / "docs" / "messages.md"
# Words that are put together when they are written.
_BEGIN = ("Rollout", "HubClusterAdmin")


def told() -> set[str]:
    """Return the reasons of the page: what is in the first column of its tables."""
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def test_every_reason_is_explained() -> None:
    missing = {word: sorted(modules) for word, modules in reasons().items() if word not in told()}
    assert missing == {}


def test_nothing_is_explained_that_nobody_writes() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    words = set(re.findall(r"""["'](\w+)["']""", source))
    unknown = {word for word in told() if not ({word, *(word.removeprefix(each) for each in _BEGIN)} & words)}
    assert unknown == set()


def test_a_reason_is_found_wherever_it_comes_from() -> None:
    literal, choice, parameter, table, starred = (
        "ResourceRemaining",
        "FleetSilent",
        "GroupsStarted",
        "ObjectsDegraded",
        "NoIntersection",
    )
    assert {literal, choice, parameter, table, starred} <= reasons().keys()
