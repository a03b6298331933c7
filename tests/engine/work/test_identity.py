"""Which records an agent goes on with after its hub has moved."""

import pytest

from echelon.api.meta import ObjectMeta
from echelon.api.work import AppliedManifestWork, AppliedManifestWorkSpec, ManifestWork, ManifestWorkSpec
from echelon.engine.work.identity import WORK_UID, Identity

WORK = ManifestWork(metadata=ObjectMeta(name="w", namespace="c1", uid="u1"), spec=ManifestWorkSpec())
DEFAULT, CHOSEN = Identity("new", "new"), Identity("new", "mine")


def record(hub: str, agent: str, uid: str = "u1", work: str = "w") -> AppliedManifestWork:
    annotations = {WORK_UID: uid} if uid else {}
    return AppliedManifestWork(
        metadata=ObjectMeta(name=f"{hub}-{work}", annotations=annotations),
        spec=AppliedManifestWorkSpec(hub_hash=hub, agent_id=agent, manifest_work_name=work),
    )


@pytest.mark.parametrize(
    ("who", "found", "expected"),
    [
        (DEFAULT, record("old", "old"), True),
        (DEFAULT, record("old", ""), True),
        (CHOSEN, record("old", "old"), True),
        (CHOSEN, record("old", "mine"), True),
        (CHOSEN, record("old", "mine", uid=""), True),
        (Identity("new", "old"), record("old", "old", uid=""), True),
        (DEFAULT, record("old", "theirs"), False),
        (CHOSEN, record("old", "theirs"), False),
        (DEFAULT, record("old", "old", uid="u2"), False),
        (CHOSEN, record("old", "mine", uid="u2"), False),
        (DEFAULT, record("old", "old", uid=""), False),
        (DEFAULT, record("new", "new"), False),
        (DEFAULT, record("old", "old", work="x"), False),
    ],
)
def test_an_agent_goes_on_with_records_of_its_works_that_nobody_else_claims(
    who: Identity, found: AppliedManifestWork, expected: bool
) -> None:
    assert who.continues(WORK, found) is expected


def test_a_record_stays_while_the_hub_has_its_work_under_whatever_address() -> None:
    assert DEFAULT.is_wanted(WORK, record("new", "new", uid="u2"))
    assert DEFAULT.is_wanted(WORK, record("old", "old"))
    assert not DEFAULT.is_wanted(WORK, record("old", "old", uid="u2"))
    assert not DEFAULT.is_wanted(None, record("new", "new"))
