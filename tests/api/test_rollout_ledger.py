"""The kind of the ledger: its table shows how far a rollout is, and it keeps what it is given."""

import msgspec

from echelon.api import registry
from echelon.api.crd import check_structural, crd
from echelon.api.rollout_ledger import (
    ROLLOUT_LEDGER,
    Budget,
    ClusterGrant,
    RolloutLedger,
    RolloutLedgerSpec,
    RolloutLedgerStatus,
)
from echelon.engine.align import ClusterLedger, Grant, Ledger, Outstanding

DEFINITION = crd(ROLLOUT_LEDGER)["spec"]["versions"][0]


def test_the_schema_is_structural() -> None:
    check_structural(DEFINITION["schema"]["openAPIV3Schema"])


def test_it_is_among_the_definitions_that_are_printed() -> None:
    assert "rolloutledgers.echelon.dev" in [each["metadata"]["name"] for each in registry.crds()]


def test_the_table_shows_the_budgets_and_how_far_it_is() -> None:
    shown = [each["name"] for each in DEFINITION["additionalPrinterColumns"]]
    assert shown == ["Total", "Updated", "Available", "MaxUnavailable", "MaxSurge", "Complete", "Age"]


def test_a_content_without_a_format_is_refused() -> None:
    spec = DEFINITION["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert sorted(spec["required"]) == ["content", "format"]
    assert spec["properties"]["format"]["minimum"] == 1


def test_figures_that_are_zero_are_written() -> None:
    """A cluster that may take nothing away is told of with a zero, and not with silence."""
    status = RolloutLedgerStatus(budget=Budget(total=10), clusters=[ClusterGrant(name="c1", push_id=3)])
    wire = msgspec.to_builtins(status)
    assert wire["budget"] == {"total": 10, "unavailable": 0, "surge": 0, "partition": 0}
    assert wire["clusters"][0]["surge"] == 0


def test_a_ledger_comes_back_as_it_was_stored() -> None:
    ledger = Ledger(next_push=4, clusters={"c1": ClusterLedger((Outstanding(Grant(3, "h1", 4, 1)),))})
    stored = RolloutLedger(spec=RolloutLedgerSpec(format=ledger.format, content=ledger.json.decode()))
    read = msgspec.json.decode(msgspec.json.encode(stored), type=RolloutLedger)
    assert Ledger.read(read.spec.content.encode()) == ledger
