"""The file of a durable log: whose it is, how it is opened, and what can be wrong with it.

A file that is not ours, or not whole, is left as it was found.
"""

import contextlib
import logging
import os
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

_APPLICATION = 0x4563686C  # "Echl": says that the file is ours
_FORMAT = 2
_SCHEMA = (
    # Numbers are not used twice: what a removed cluster might have left behind must not become another one's.
    "CREATE TABLE cluster (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, compacted INTEGER NOT NULL)",
    """CREATE TABLE log (position INTEGER PRIMARY KEY, key TEXT NOT NULL, created INTEGER NOT NULL, value BLOB NOT NULL,
       checksum INTEGER NOT NULL DEFAULT 0)""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_FORMAT}",
)


# The first format had no checksums: what is in such a file is taken as it is, once.
_UPGRADE = (
    "ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "UPDATE log SET checksum = checksum_of(position, key, created, value)",
    f"PRAGMA user_version = {_FORMAT}",
)

_logger = logging.getLogger(__name__)


def checksum_of(position: int, key: str, created: int, value: bytes) -> int:
    """Return what tells whether a row is the one that was written, at the place where it was written."""
    return zlib.crc32(value, zlib.crc32(f"{position}/{created}/{key}".encode("utf-8", "surrogatepass")))


class LogError(Exception):
    """A database that cannot be used; the text names the file and is for people."""


class LogInUse(LogError):
    """Another process, or another log of this one, has the file open."""


class LogForeign(LogError):
    """The file is not a log of ours, or one of a newer version."""


class LogDamaged(LogError):
    """The file was a log of ours once, and cannot be read any more."""


class LogUnreachable(LogError):
    """The file cannot be opened or made."""


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do all of it or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise


def open_database(path: Path, *, full_sync: bool) -> sqlite3.Connection:
    """Open a log's file, or make it; nobody else can use it until it is closed."""
    try:
        # It holds Secrets: made for its owner only. SQLite gives the files beside it the same mode. A file that is
        # there must not be opened here: closing it would take the locks away from a log that this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        _close_to_others(path)
    except OSError as error:
        raise LogUnreachable(f"{path} cannot be opened: {error.strerror}") from error
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    except sqlite3.Error as error:
        raise explain(path, error) from error
    try:
        _prepare(db, path, full_sync=full_sync)
    except sqlite3.Error as error:
        db.close()
        raise explain(path, error) from error
    except LogError:
        db.close()
        raise
    return db


def _close_to_others(path: Path) -> None:
    """Take the rights of others away, from the files beside it as well: somebody may have copied them here."""
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(OSError):  # what keeps the file from being used is said when it is opened
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                file.chmod(mode & ~0o077)
                _logger.warning("%s was accessible to other users (mode %04o); it is not any more", file, mode)


def _prepare(db: sqlite3.Connection, path: Path, *, full_sync: bool) -> None:
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    version = _version(db, path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {'FULL' if full_sync else 'NORMAL'}")
    db.execute("PRAGMA journal_size_limit = 67108864")
    db.create_function("checksum_of", 4, checksum_of, deterministic=True)
    with transaction(db):  # also takes the lock, for as long as the connection lives
        for statement in _STEPS[version]:
            db.execute(statement)
    ((found,),) = db.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise LogDamaged(damage(path, found))


# What makes a file of each version one of the present.
_STEPS = {0: _SCHEMA, 1: _UPGRADE, _FORMAT: ()}


def damage(path: Path, why: object) -> str:
    """Say what is wrong with a file, and what a person can do."""
    return f"{path} is damaged: {why}; restore it from a backup, or move it away to start empty"


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Look at the file before anything in it is changed; 0 is an empty one."""
    ((application,),) = db.execute("PRAGMA application_id").fetchall()
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    ((tables,),) = db.execute("SELECT count(*) FROM sqlite_master").fetchall()
    if application != _APPLICATION and (application or version or tables):
        raise LogForeign(f"{path} is a database of another program; choose another file")
    if version > _FORMAT:
        raise LogForeign(f"{path} was written by a newer version of Echelon (format {version}, known: {_FORMAT})")
    return int(version) if tables else 0


def explain(path: Path, error: sqlite3.Error) -> LogError:
    """Say in terms of the file what went wrong."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogInUse(f"{path} is in use by another process")
    if code == sqlite3.SQLITE_NOTADB:
        return LogForeign(f"{path} is not a database; choose another file")
    if code == sqlite3.SQLITE_CORRUPT:
        return LogDamaged(damage(path, error))
    return LogUnreachable(f"{path} cannot be used: {error}")
