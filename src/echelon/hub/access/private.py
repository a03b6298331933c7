"""Files that hold keys or tokens must never be readable by anyone but their owner, not even while they are written.

A file that is created and then made private was public for a moment, and a crash can make that moment last. So a
private file is created with its final mode under a name nobody knows, and renamed when it is complete: a reader sees
the old content or the new one, and nobody else sees anything.

A private file that was found open to others is closed and a warning is logged. Refusing to start would be no safer,
because what was readable has been readable already, and it would strand everyone who restored a backup.
"""

import logging
import os
import secrets
import stat
from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_OTHERS = 0o077

_log = logging.getLogger(__name__)


def private_directory(path: Path) -> Path:
    """Return the directory, made if it was missing and closed to others."""
    path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    tighten(path)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Put the content in place of whatever the file had, at once and durably."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def read_private(path: Path) -> bytes:
    """Return what the file has, after closing it to others."""
    tighten(path)
    return path.read_bytes()


def tighten(path: Path) -> bool:
    """Take the rights of everyone but the owner away; say whether there were any."""
    mode = path.stat().st_mode
    if not mode & _OTHERS:
        return False
    path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    _log.warning("%s was accessible to other users (mode %04o); it is not any more", path, stat.S_IMODE(mode))
    return True


def _sync_directory(path: Path) -> None:
    # Without this a power loss can forget the rename, and with it a key that has already signed something.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
