"""The exchange of a hub's authority: three steps, each of which can be interrupted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from echelon.hub.access import authorities, pki
from echelon.hub.access.authorities import RotationStep, WrongStep

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


def opened(directory: Path) -> tuple[bytes, list[bytes]]:
    """Return the authority that signs, and all others that are trusted."""
    authorities.settle(directory)
    present = pki.open_pki(directory, (), NOW).authority.certificate_pem
    return present, [each.public_bytes(Encoding.PEM) for each in authorities.others(directory)]


def test_an_authority_is_announced_then_signs_then_is_alone(tmp_path: Path) -> None:
    old, others = opened(tmp_path)
    assert others == []
    authorities.take("next", tmp_path, NOW)
    present, (new,) = opened(tmp_path)
    assert present == old
    authorities.take("switch", tmp_path, NOW)
    assert opened(tmp_path) == (new, [old])
    authorities.take("finish", tmp_path, NOW)
    assert opened(tmp_path) == (new, [])


@pytest.mark.parametrize(
    "steps", [("next", "next"), ("next", "switch", "switch"), ("next", "switch", "finish", "finish")]
)
def test_a_step_that_was_taken_is_not_taken_again(tmp_path: Path, steps: tuple[RotationStep, ...]) -> None:
    opened(tmp_path)
    for step in steps[:-1]:
        authorities.take(step, tmp_path, NOW)
    before = opened(tmp_path)
    authorities.take(steps[-1], tmp_path, NOW)
    assert opened(tmp_path) == before


def test_a_step_whose_turn_it_is_not_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    before = opened(tmp_path)
    with pytest.raises(WrongStep, match="take the step next first"):
        authorities.take("switch", tmp_path, NOW)
    assert opened(tmp_path) == before
    authorities.take("next", tmp_path, NOW)
    authorities.take("switch", tmp_path, NOW)
    with pytest.raises(WrongStep, match="finish it before the next one"):
        authorities.take("next", tmp_path, NOW)


def test_a_switch_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    old, _ = opened(tmp_path)
    authorities.take("next", tmp_path, NOW)
    new = (tmp_path / "ca-next.crt").read_bytes()
    (tmp_path / "ca-old.crt").write_bytes(old)
    assert opened(tmp_path)[0] == old  # before the key is replaced nothing has happened yet
    (tmp_path / "ca.key").write_bytes((tmp_path / "ca-next.key").read_bytes())
    assert opened(tmp_path) == (new, [old])


def test_the_serving_certificate_follows(tmp_path: Path) -> None:
    opened(tmp_path)
    authorities.take("next", tmp_path, NOW)
    authorities.take("switch", tmp_path, NOW)
    keys = pki.open_pki(tmp_path, (), NOW)
    keys.serving.certificate.verify_directly_issued_by(keys.authority.certificate)
