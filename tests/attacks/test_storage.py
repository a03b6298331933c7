"""What happens to the files of a hub, and to what is in them: nothing is lost, or seen by others, without a word."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from echelon.cli.hub import hub as command
from echelon.fleet.local import Local
from echelon.fleet.local import Settings as LocalSettings
from echelon.hub import server
from echelon.hub.server import Hub, Settings
from echelon.hub.storage.database import LogDamaged
from tests.attacks.hub import attacked_hub, eventually
from tests.hub.api import Api, config_map
from tests.hub.conftest import HubProcess

pytestmark = pytest.mark.full

MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The database of a hub that has stored something and was stopped."""
    directory = tmp_path_factory.mktemp("written")
    with attacked_hub(directory, Settings(data=directory / "data")) as running:
        for number in range(20):
            running.admin.ok("POST", MAPS, config_map(f"m{number}", text=f"precious-{number}-" + "x" * 500))
    return (directory / "data" / "hub.db").read_bytes()


def start_with(directory: Path, content: bytes) -> None:
    """Start a hub on this database, look at what it serves, and stop it."""
    (directory / "data").mkdir()
    (directory / "data" / "hub.db").write_bytes(content)
    with attacked_hub(directory, Settings(data=directory / "data")) as running:
        running.admin.ok("GET", MAPS)


def test_a_flipped_byte_in_an_object_is_named_and_never_served(written: bytes, tmp_path: Path) -> None:
    """It is still valid JSON, and nothing but a checksum can tell."""
    (tmp_path / "whole").mkdir()
    start_with(tmp_path / "whole", written)
    place = written.index(b"precious-7-xxx") + len("precious-7-")
    (tmp_path / "flipped").mkdir()
    with pytest.raises(LogDamaged, match=r"hub.db is damaged: .*configmaps/default/m7\) is not what was written"):
        start_with(tmp_path / "flipped", written[:place] + b"y" + written[place + 1 :])


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_byte_anywhere_is_noticed_or_in_nothing_that_counts(
    written: bytes, tmp_path: Path, seed: int
) -> None:
    place = (seed * 2_654_435_761 + 4096) % len(written)
    flipped = written[:place] + bytes([written[place] ^ 0x10]) + written[place + 1 :]
    path = tmp_path / "hub.db"
    path.write_bytes(flipped)
    before, after = rows(written, tmp_path / "before.db"), rows(flipped, tmp_path / "after.db")
    if before == after:
        return  # a free page, or a part of the header
    with pytest.raises(Exception, match=r"damaged|not a database|another program|cannot be used|newer"):
        start_with(tmp_path, flipped)


def rows(content: bytes, path: Path) -> object:
    path.write_bytes(content)
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT * FROM log").fetchall(), db.execute("SELECT * FROM cluster").fetchall()
    except (sqlite3.Error, UnicodeError) as error:
        return str(error)


def test_a_database_without_checksums_gets_them_once(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "hub.db"
    path.write_bytes(written)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE log DROP COLUMN checksum")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    for _ in range(2):
        with attacked_hub(tmp_path, Settings(data=tmp_path / "data")) as running:
            assert len(running.admin.ok("GET", MAPS)["items"]) == 20
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM log WHERE checksum = 0").fetchone() == (0,)


@pytest.mark.parametrize("made", ["before", "now"])
def test_a_database_is_closed_to_others(made: str, written: bytes, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "hub.db"
    if made == "before":
        path.write_bytes(written)
        path.chmod(0o644)
    with attacked_hub(tmp_path, Settings(data=tmp_path / "data")) as running:
        running.admin.ok("POST", MAPS, config_map("new"))
        for file in (tmp_path / "data").glob("hub.db*"):
            assert file.stat().st_mode & 0o077 == 0, file


def test_a_hub_whose_log_cannot_be_written_is_not_ready_before_anybody_has_written(tmp_path: Path) -> None:
    with attacked_hub(tmp_path, Settings(data=tmp_path / "data")) as running:
        assert running.admin("GET", "/readyz").status == 200
        log = running.hub._log
        assert log is not None
        log.query("PRAGMA query_only = on")  # as a disk that went read-only
        eventually(lambda: running.admin("GET", "/readyz").status == 500)
        assert running.admin("GET", "/livez").status == 200
        log.query("PRAGMA query_only = off")
        eventually(lambda: running.admin("GET", "/readyz").status == 200)


def served_certificate(api: Api) -> bytes:
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((api.host, api.port)))


def test_the_serving_certificate_is_renewed_while_the_hub_runs(tmp_path: Path) -> None:
    with attacked_hub(tmp_path, Settings(data=tmp_path / "data")) as running:
        first = served_certificate(running.admin)
        now = datetime.now(UTC)
        running.hub.renew_certificate(now + timedelta(days=300))
        assert served_certificate(running.admin) == first, "it is good for two more months"
        running.hub.renew_certificate(now + timedelta(days=340))
        assert served_certificate(running.admin) != first
        second = served_certificate(running.admin)
    with attacked_hub(tmp_path, Settings(data=tmp_path / "data")) as running:
        assert served_certificate(running.admin) == second, "it is kept"


def test_whether_to_renew_is_asked_again_and_again_also_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[datetime] = []

    def renew(_: Hub, now: datetime) -> None:
        asked.append(now)
        raise OSError("the disk is full")

    monkeypatch.setattr(server, "_RENEWAL_SECONDS", 0.01)
    monkeypatch.setattr(Hub, "renew_certificate", renew)
    with attacked_hub(tmp_path):
        eventually(lambda: len(asked) > 1)


def test_events_go_after_their_time_and_nothing_else_does(tmp_path: Path) -> None:
    with attacked_hub(tmp_path, Settings(event_seconds=2.0)) as running:
        api = running.admin
        about = {"kind": "ConfigMap", "name": "x", "namespace": "default"}
        far = "2999-01-01T00:00:00Z"
        version = api.ok("GET", EVENTS)["metadata"]["resourceVersion"]
        api.ok("POST", EVENTS, {"metadata": {"name": "old"}, "involvedObject": about, "lastTimestamp": far})
        api.ok("POST", MAPS, config_map("stays"))
        with api.watch(EVENTS, resourceVersion=version, timeoutSeconds=60) as events:
            seen = [(event["type"], event["object"]["metadata"]["name"]) for event in (next(events), next(events))]
        assert seen == [("ADDED", "old"), ("DELETED", "old")]
        assert api("GET", f"{MAPS}/stays").status == 200


def audited(directory: Path) -> list[dict[str, object]]:
    *whole, _ = (directory / "audit.log").read_bytes().split(b"\n")  # the last one may be half written
    return [msgspec.json.decode(line) for line in whole if line]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HubProcess]:
    made = HubProcess(tmp_path, ["--data", str(tmp_path / "data")])
    made.start()
    try:
        yield made
    finally:
        made.kill()


def test_a_request_that_ends_the_hub_is_in_the_audit_log(running: HubProcess) -> None:
    """The hub is ended while the request waits for its body: no thread has had the time to write anything."""
    api = Api.of(running.kubeconfig)
    connection = api.connect()
    connection.putrequest("POST", MAPS)
    for name, value in {**api.headers, "Content-Length": "100"}.items():
        connection.putheader(name, value)
    connection.endheaders(b"{")
    eventually((running.directory / "data" / "audit.log").exists)
    eventually(lambda: any(entry["verb"] == "create" for entry in audited(running.directory / "data")))
    assert running.process is not None
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    (entry,) = [e for e in audited(running.directory / "data") if e["requestURI"] == MAPS]
    assert entry["stage"] == "RequestReceived"
    assert isinstance(entry["user"], dict)
    assert entry["user"]["username"] == "echelon-admin"
    assert "responseStatus" not in entry


def test_both_entries_of_a_request_have_one_name(running: HubProcess) -> None:
    api = Api.of(running.kubeconfig)
    api.ok("POST", MAPS, config_map("a"))
    assert running.stop() == 0
    first, second = [e for e in audited(running.directory / "data") if e["requestURI"] == MAPS]
    assert (first["stage"], second["stage"]) == ("RequestReceived", "ResponseComplete")
    assert first["auditID"] == second["auditID"]


def test_everything_on_one_machine_keeps_an_audit_log_too(tmp_path: Path) -> None:
    async def story() -> None:
        local = await Local.start(LocalSettings("1 clusters", data=tmp_path / "data"))
        try:
            tls = ssl.create_default_context(cadata=local.hub.keys.authority.certificate_pem.decode())
            headers = {"Authorization": f"Bearer {local.hub.admin_token}"}
            api = Api("127.0.0.1", local.hub.port, tls, headers)
            await asyncio.to_thread(api.ok, "POST", MAPS, config_map("a"))
        finally:
            await local.stop()

    asyncio.run(story())
    assert [e["stage"] for e in audited(tmp_path / "data") if e["requestURI"] == MAPS] == [
        "RequestReceived",
        "ResponseComplete",
    ]


BAD_TOKENS = {
    "no table": b'token,"user',
    "no text": b"\xff\xfe",
    "too few columns": b"token\n",
    "an empty token": b",user,uid\n",
    "twice": b"t,a,a\nt,b,b\n",
    "nul": b"to\0ken,user,uid\n",
    "spaces": b"to ken,user,uid\n",
    "a huge field": b"t," + b"u" * 200_000 + b",u\n",
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_file_is_a_message_and_no_traceback(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(BAD_TOKENS[name])
    path.chmod(0o600)  # so that there is nothing else to be said of it
    result = CliRunner().invoke(command, ["--data", str(tmp_path)])
    assert result.exit_code == 1
    assert "tokens.csv" in result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_the_token_of_one_logical_cluster_opens_no_other(tmp_path: Path) -> None:
    with attacked_hub(tmp_path, Settings(clusters=("paris", "oslo"))) as running:
        admin, hub = running.admin, running.hub
        paris = admin.with_headers(Authorization=f"Bearer {hub.admin_token_for('paris')}")
        assert paris("GET", f"/clusters/paris{MAPS}").status == 200
        for path in (f"/clusters/oslo{MAPS}", MAPS, "/metrics", "/clusters"):
            assert paris("GET", path).status == 401, path
        for path in ("/clusters/paris/metrics", "/clusters/paris/clusters"):
            assert paris("GET", path).status == 404, path
        assert admin("GET", "/metrics").status == admin("GET", "/clusters").status == 200
