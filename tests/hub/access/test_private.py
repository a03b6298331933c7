import logging
import os
import stat
from pathlib import Path

import pytest

from echelon.hub.access.private import private_directory, read_private, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_closed_to_others_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "key", b"secret")
        private_directory(tmp_path / "keys")
    finally:
        os.umask(before)
    assert mode(tmp_path / "key") == 0o600
    assert mode(tmp_path / "keys") == 0o700


def test_replacing_an_open_file_leaves_a_closed_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


def test_a_write_that_fails_leaves_the_old_content_and_no_rubbish(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "inside").touch()
    with pytest.raises(OSError, match="taken"):
        write_private(taken, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_reading_a_file_that_others_can_read_closes_it_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(0o640)
    with caplog.at_level(logging.WARNING):
        assert read_private(path) == b"secret"
    assert mode(path) == 0o600
    assert "accessible to other users" in caplog.text
    assert "secret" not in caplog.text
