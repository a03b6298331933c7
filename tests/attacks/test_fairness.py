"""What one user does to have the hub for itself: it keeps its own share busy, and others do not notice."""

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from echelon.hub.server import Settings
from echelon.hub.web.doors import Doors
from echelon.hub.web.limits import Bounds
from echelon.hub.web.shares import Shares
from tests.attacks.hub import AttackedHub, attacked_hub, eventually
from tests.hub.api import Api, config_map
from tests.hub.conftest import HubProcess

pytestmark = pytest.mark.full

MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 4.0
PLACES, WAITING, WATCHES = 3, 2, 4
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    """A hub with few places, and more patience than a test has."""
    bounds = Bounds(600.0, requests=2 * PLACES, requests_each=PLACES, waiting_each=WAITING, watches_each=WATCHES)
    with attacked_hub(tmp_path_factory.mktemp("small"), Settings(bounds=bounds)) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    """A hub with little patience."""
    with attacked_hub(tmp_path_factory.mktemp("hasty"), Settings(bounds=Bounds(SECONDS))) as running:
        yield running


def unfinished(hub: AttackedHub, user: Api) -> ssl.SSLSocket:
    """Begin a request whose body never comes to its end."""
    made = hub.raw(user)
    head = f"POST {MAPS} HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: 1000"
    made.sendall(f"{head}\r\n\r\n{{".encode())
    return made


def answer(connection: ssl.SSLSocket) -> tuple[int, dict[str, str], Any]:
    """Read what is answered on a connection, up to the end of a small body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        assert more, data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, json.loads(body)


def waiting(hub: AttackedHub) -> int:
    """Return how many requests wait for a place."""
    return sum(map(len, list(hub.hub.limits.requests._waiting.values())))


def test_who_asks_too_much_at_once_is_told_to_come_back_and_others_are_served(small: AttackedHub) -> None:
    mallory, jane, limits = small.user("mallory"), small.user("jane"), small.hub.limits
    with ExitStack() as open_:
        for _ in range(PLACES + WAITING):
            open_.enter_context(unfinished(small, mallory))
        eventually(lambda: (limits.requests.taken, waiting(small)) == (PLACES, WAITING))
        refused = mallory("GET", MAPS)
        assert (refused.status, refused.reason, refused.headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert refused.json["details"]["retryAfterSeconds"] == 1
        assert jane("GET", MAPS).status == 200
        assert mallory("GET", "/readyz").data == b"ok", "probes have a place at all times"
    eventually(lambda: (limits.requests.taken, waiting(small)) == (0, 0))  # those who wait are gone with their clients
    assert mallory("GET", MAPS).status == 200


def test_a_body_that_does_not_come_in_time_is_an_answer_and_its_place_is_the_next_ones(hasty: AttackedHub) -> None:
    with unfinished(hasty, hasty.user("mallory")) as connection:
        status, _, body = answer(connection)
        assert (status, body["reason"]) == (504, "Timeout")
    eventually(lambda: hasty.hub.limits.requests.taken == 0)


def test_an_administrator_has_a_place_at_all_times(small: AttackedHub) -> None:
    with ExitStack() as open_:
        for user in ("mallory", "jane", "john"):
            for _ in range(PLACES):
                open_.enter_context(unfinished(small, small.user(user)))
        eventually(lambda: small.hub.limits.requests.taken == 2 * PLACES)
        assert small.admin("GET", MAPS).status == 200
    eventually(lambda: small.hub.limits.requests.taken == 0)


def test_watches_are_counted_for_themselves(small: AttackedHub) -> None:
    user = small.user("watcher")
    with ExitStack() as open_:
        for _ in range(WATCHES):
            open_.enter_context(user.watch(MAPS, timeoutSeconds=300))
        refused = user("GET", MAPS, watch="true")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert user("GET", MAPS).status == 200
    eventually(lambda: small.hub.limits.watches.taken == 0)
    with user.watch(MAPS, timeoutSeconds=1):
        pass


def test_a_connection_that_asks_nothing_is_closed(hasty: AttackedHub) -> None:
    user = hasty.user("silent")
    with hasty.raw(user) as nothing, hasty.raw(user) as half:
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        for connection in (nothing, half):
            with suppress(ConnectionError, ssl.SSLError):
                assert connection.recv(1) == b""


def test_a_connection_that_comes_and_goes_leaves_nothing_behind(small: AttackedHub) -> None:
    """Not even for as long as one that stays would be waited for."""
    user, doors = small.user("restless"), small.hub._web
    assert isinstance(doors, Doors)
    eventually(lambda: doors.silent == 0)
    with socket.create_connection((user.host, user.port)), small.raw(user):
        eventually(lambda: doors.silent == 1)  # the other one has yet to shake hands, and a limit for that
    eventually(lambda: doors.silent == 0)


def test_who_acts_as_somebody_else_has_the_turns_of_nobody_else(
    small: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large bodies are read, and written, one after the other for each user: for the one who asks."""
    asked: list[str] = []
    place = Shares.place

    def noted(shares: Shares, user: str) -> AbstractAsyncContextManager[None]:
        if shares is small.hub.limits.large:
            asked.append(user)
        return place(shares, user)

    small.user("jane")
    monkeypatch.setattr(Shares, "place", noted)
    acting = small.admin.with_headers(**{"Impersonate-User": "jane"})
    acting.ok("POST", MAPS, config_map("acted", text="x" * 100_000))
    assert acting.with_headers(Accept="application/yaml")("GET", f"{MAPS}/acted").status == 200
    assert asked == ["/echelon-admin"] * 2


@pytest.fixture(scope="module")
def crowd(hasty: AttackedHub) -> AttackedHub:
    """The hub with 40 MB of objects."""
    for number in range(40):
        hasty.admin.ok("POST", MAPS, config_map(f"large-{number}", text="x" * 1_000_000))
    return hasty


def test_answers_that_nobody_takes_are_given_up(crowd: AttackedHub) -> None:
    """And with them their places: a list waits for its reader, and not for ever."""
    limits, jane = crowd.hub.limits, crowd.user("jane")
    with ExitStack() as open_:
        held = 0
        for number, accept in enumerate(("application/json", "application/yaml", TABLE, "")):
            connection = open_.enter_context(crowd.raw(crowd.user(f"reader-{number}")))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            how = f"?includeObject=Object HTTP/1.1\r\nAccept: {accept}" if accept else "?watch=true HTTP/1.1"
            connection.sendall(f"GET {MAPS}{how}\r\nHost: hub\r\n\r\n".encode())
            assert connection.recv(16).startswith(b"HTTP/1.1 200")
            held = max(held, limits.requests.taken + limits.watches.taken)
        assert held > 0
        assert jane("GET", MAPS, limit="1").status == 200
        eventually(lambda: limits.requests.taken + limits.watches.taken == 0)


def resident(process: int) -> int:
    """Return how many bytes of memory a process has."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_readers_that_do_not_read_cost_no_memory_worth_mentioning(tmp_path: Path) -> None:
    """Thirty readers of 36 MB each, in every form: a gigabyte if an answer were made before it is sent."""
    running = HubProcess(tmp_path, ["--memory"])
    running.start()
    try:
        api = Api.of(running.kubeconfig)
        for number in range(36):
            api.ok("POST", MAPS, config_map(f"large-{number}", text="x" * 1_000_000))
        assert running.process is not None
        api("GET", MAPS)
        before = resident(running.process.pid)
        token = api.headers["Authorization"]

        def begin(number: int) -> ssl.SSLSocket:
            made = api.tls.wrap_socket(socket.create_connection((api.host, api.port)), server_hostname=api.host)
            made.settimeout(60)
            form = ("application/json", "application/yaml", TABLE)[number % 3]
            how = "watch=true" if number % 4 == 3 else "includeObject=Object"
            accept = "" if "watch" in how else f"Accept: {form}\r\n"
            made.sendall(f"GET {MAPS}?{how} HTTP/1.1\r\nHost: h\r\nAuthorization: {token}\r\n{accept}\r\n".encode())
            assert made.recv(16).startswith(b"HTTP/1.1 200")
            return made

        with ThreadPoolExecutor(8) as pool:
            connections = list(pool.map(begin, range(30)))
        assert api("GET", "/healthz").data == b"ok"
        grown = resident(running.process.pid) - before
        for connection in connections:
            connection.close()
        assert grown < 300_000_000, f"{grown / 1e6:.0f} MB"
        assert running.stop() == 0, running.log()
    finally:
        running.kill()
