"""How failed writes are kept on the object that is rolled out."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.failed_writes import FailedWrite, decode, encode, relevant
from echelon.engine.rollout.model import Phase

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)

names = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
failures = st.builds(
    FailedWrite,
    revision=st.sampled_from(["r1", "r2"]),
    since=st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(lambda each: each.replace(tzinfo=UTC)),  # noqa: DTZ001
    refused=st.booleans(),
    message=st.text(st.characters(exclude_characters="\N{REPLACEMENT CHARACTER}", codec="utf-8"), max_size=512),
    held=st.booleans(),
)


@given(st.dictionaries(names, failures, max_size=20))
def test_what_is_stored_is_read_back_exactly(failed: dict[str, FailedWrite]) -> None:
    value = encode(failed)
    assert (value is None) == (not failed)
    assert decode(value or "") == failed


def test_ten_thousand_clusters_that_fail_for_one_reason_fit_into_an_annotation() -> None:
    failed = {
        f"production-europe-west-{number:05}": FailedWrite(
            "r1",
            NOW + timedelta(microseconds=number * 7919),
            True,
            f'namespaces "production-europe-west-{number:05}" not found',
        )
        for number in range(10_000)
    }
    value = encode(failed)
    assert value is not None
    assert len(value) < 128 * 1024  # a server takes 256 KiB of annotations
    assert decode(value) == failed


@given(st.text(max_size=60).map(lambda text: "zlib:" + text) | st.text(max_size=60))
def test_what_somebody_else_wrote_there_is_as_good_as_nothing(value: str) -> None:
    assert isinstance(decode(value), dict)


def test_only_what_this_revision_lacks_on_selected_clusters_still_matters() -> None:
    old, new = (FailedWrite(revision, NOW, True, "no") for revision in ("r1", "r2"))
    failed = {"a": new, "b": new, "c": new, "d": old}
    assert relevant(failed, "r2", ["a", "b", "d"], ["b"]) == {"a": new}


def test_a_refused_cluster_has_failed_and_one_without_an_answer_is_under_way_since_the_first_attempt() -> None:
    refused, unanswered = (FailedWrite("r", NOW, refused, "") for refused in (True, False))
    assert (refused.status("a").phase, refused.status("a").since) == (Phase.FAILED, NOW)
    assert (unanswered.status("a").phase, unanswered.status("a").since) == (Phase.PROGRESSING, NOW)
