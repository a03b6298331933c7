"""Who is signed in: sessions by a random id, links of one use, and how long and how many of both there may be.

A session is known by the hash of its id, so that what is in memory opens nothing. Times are seconds on any one clock
that does not jump.
"""

import hmac
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from echelon.dashboard.credentials import Identity

LONGEST_SECONDS = 12 * 3600.0
IDLE_SECONDS = 3600.0
MOST, MOST_EACH = 1000, 20
LINK_SECONDS = 300.0


@dataclass
class Session:
    """Somebody who is signed in, in one browser."""

    identity: Identity
    began: float
    seen: float
    csrf: str = field(repr=False)
    namespaces: tuple[str, ...] = ()
    watching: int = 0  # pages that are open

    def is_over(self, now: float) -> bool:
        """Whether it has lasted too long, or nobody was there for too long."""
        return now - self.began > LONGEST_SECONDS or (not self.watching and now - self.seen > IDLE_SECONDS)


class Sessions:
    """All sessions, and the links by which some begin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}  # the oldest first
        self._links: dict[str, tuple[Identity, float]] = {}

    def begin(self, identity: Identity, namespaces: tuple[str, ...] = ()) -> tuple[str, Session]:
        """Sign somebody in. Return the id, which only the browser knows, and the session."""
        self._tidy()
        own = [key for key, each in self._sessions.items() if each.identity.key == identity.key]
        for key in own[: max(0, len(own) + 1 - MOST_EACH)]:
            del self._sessions[key]
        while len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        name, now = secrets.token_urlsafe(32), self._clock()
        session = Session(identity, now, now, secrets.token_urlsafe(32), namespaces)
        self._sessions[_digest(name)] = session
        return name, session

    def find(self, name: str) -> Session | None:
        """Return the session of an id, if it goes on, and note that somebody was there."""
        session = self._sessions.get(_digest(name)) if name else None
        now = self._clock()
        if session is None or session.is_over(now):
            return None
        session.seen = now
        return session

    def end(self, name: str) -> None:
        """Sign somebody out."""
        self._sessions.pop(_digest(name), None)

    def end_of(self, identity: str) -> None:
        """Sign somebody out everywhere: the hub no longer knows the credential."""
        self._sessions = {key: each for key, each in self._sessions.items() if each.identity.key != identity}

    def goes_on(self, session: Session) -> bool:
        """Whether a session that was found before has not ended since."""
        return any(each is session for each in self._sessions.values()) and not session.is_over(self._clock())

    def link(self, identity: Identity) -> str:
        """Return a code with which somebody can sign in once, soon."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = identity, self._clock()
        return code

    def redeem(self, code: str) -> Identity | None:
        """Return whom a code signs in, and forget it."""
        found = self._links.pop(_digest(code), None)
        if found is None or self._clock() - found[1] > LINK_SECONDS:
            return None
        return found[0]

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def _tidy(self) -> None:
        now = self._clock()
        self._sessions = {key: each for key, each in self._sessions.items() if not each.is_over(now)}
        self._links = {key: each for key, each in self._links.items() if now - each[1] <= LINK_SECONDS}


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing."""
    return hmac.compare_digest(one.encode(), other.encode())


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
