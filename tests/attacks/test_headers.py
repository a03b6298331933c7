"""Headers and addresses of a stranger: what is odd is refused, and nothing is larger than it looks."""

import gzip
import zlib
from collections.abc import Iterator

import pytest

from tests.attacks.hub import AttackedHub, attacked_hub
from tests.hub.api import Api

MAPS = "/api/v1/namespaces/default/configmaps"
BLANKS = b" " * (64 << 20)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    with attacked_hub(tmp_path_factory.mktemp("headers")) as running:
        yield running


def ask(api: Api, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
    """Send headers as they are, one after the other, with bytes that need not be text."""
    connection = api.connect()
    try:
        connection.request(method, path, body=body, headers={**api.headers, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_compressed_is_not_unpacked(hub: AttackedHub, encoding: str) -> None:
    """64 KiB would become 64 MiB, in one step."""
    body = gzip.compress(BLANKS) if encoding == "gzip" else zlib.compress(BLANKS)
    sent = {"Content-Encoding": encoding, "Content-Type": "application/json"}

    def attack() -> None:
        assert ask(hub.admin, "POST", MAPS, sent, body) == 400

    hub.steps(attack, 0.05)


HEADERS: list[tuple[str, dict[str, str], int]] = [
    (MAPS, {"Impersonate-User": "\xff"}, 400),
    (MAPS, {"Impersonate-User": "jane", "Impersonate-Extra-%ff": "v"}, 403),
    (MAPS, {"Impersonate-User": "jane", "Impersonate-Group": "\xff\xfe"}, 400),
    (MAPS, {"Impersonate-Group": "x"}, 400),
    ("/api", {"Host": "\xff"}, 200),
    (MAPS, {"User-Agent": "\xff"}, 200),
    (MAPS, {"Authorization": "Bearer \xff\xfe"}, 401),
    (MAPS, {"Authorization": "Bearer " + "a." * 20_000}, 401),
    (MAPS, {"Authorization": "Basic Og=="}, 401),
    (MAPS, {"Accept": ",".join(["a/b;q=1;x=y"] * 4000)}, 406),
    (MAPS, {"Accept": ";" * 60_000}, 406),
    (MAPS, {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}, 200),
    (MAPS, {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}, 200),
    (MAPS, {"Range": "bytes=0-99999999999999999999", "If-None-Match": "*"}, 200),
    (MAPS, {f"X-{number}": "v" for number in range(2000)}, 400),
    ("/api/v1/namespaces/%00/configmaps", {}, 200),
    ("/api/v1/namespaces/%zz/configmaps/%ff%fe", {}, 404),
    ("/api/v1/../../../etc/passwd", {}, 404),
    (f"{MAPS}?" + "&" * 60_000, {}, 200),
]


@pytest.mark.parametrize(("path", "headers", "status"), HEADERS, ids=lambda value: str(value)[:40])
def test_an_odd_header_or_address_is_answered(
    hub: AttackedHub, path: str, headers: dict[str, str], status: int
) -> None:
    def attack() -> None:
        assert ask(hub.admin, "GET", path, headers) == status

    hub.steps(attack, 0.1)
