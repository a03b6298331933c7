import json
import logging
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from echelon.hub.access.audit import AuditLog, Entry
from echelon.hub.access.identity import User

ALICE = User("alice", ("team-a", "system:authenticated"), "7", {"secret-ish": ("extra",)})


def entry(**changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "verb": "create",
        "uri": "/api/v1/namespaces/team/pods",
        "user": ALICE,
        "code": 201,
        "received": 1_800_000_000.25,
        "completed": 1_800_000_000.5,
        "source": "127.0.0.1",
        "agent": "kubectl/v1.36",
        "version": "v1",
        "resource": "pods",
        "namespace": "team",
        "name": "web",
        "reason": "RBAC: allowed",
        "audit_id": "id-1",
    }
    return Entry(**{**fields, **changes})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, *entries: Entry, **options: Any) -> list[dict[str, Any]]:
    log = AuditLog(path, **options)
    for one in entries:
        log.record(one)
    log.close()
    return lines(path) if path.exists() else []


def test_an_event_has_the_shape_that_audit_tools_read(tmp_path: Path) -> None:
    (event,) = written(tmp_path / "audit.log", entry(impersonated=User("bob"), group="apps", subresource="scale"))
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/team/pods",
        "verb": "create",
        "user": {"username": "alice", "uid": "7", "groups": ["team-a", "system:authenticated"]},
        "impersonatedUser": {"username": "bob"},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {
            "resource": "pods",
            "namespace": "team",
            "name": "web",
            "apiGroup": "apps",
            "apiVersion": "v1",
            "subresource": "scale",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2027-01-15T08:00:00.250000Z",
        "stageTimestamp": "2027-01-15T08:00:00.500000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "RBAC: allowed",
        },
    }


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("none", []),
        ("writes", ["create", "deletecollection", "denied get", "unknown get"]),
        ("all", ["create", "get", "watch", "deletecollection", "denied get", "unknown get"]),
    ],
)
def test_the_policy_says_what_is_kept(tmp_path: Path, policy: str, kept: list[str]) -> None:
    events = written(
        tmp_path / "audit.log",
        entry(verb="create", audit_id="create"),
        entry(verb="get", audit_id="get", code=200),
        entry(verb="watch", audit_id="watch", code=200),
        entry(verb="deletecollection", audit_id="deletecollection"),
        entry(verb="get", audit_id="denied get", code=403, allowed=False),
        entry(verb="get", audit_id="unknown get", code=401),
        policy=policy,
    )
    assert [event["auditID"] for event in events] == kept


def test_a_denied_request_says_so(tmp_path: Path) -> None:
    (event,) = written(tmp_path / "audit.log", entry(code=403, allowed=False, reason=""))
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"


def test_credentials_in_the_query_are_not_kept(tmp_path: Path) -> None:
    uri = "/api/v1/pods?watch=1&access_token=s3cret&TOKEN=s3cret&labelSelector=token%3Dx"
    (event,) = written(tmp_path / "audit.log", entry(uri=uri))
    assert "s3cret" not in json.dumps(event)
    assert event["requestURI"] == ("/api/v1/pods?watch=1&access_token=REDACTED&TOKEN=REDACTED&labelSelector=token%3Dx")


def test_what_a_client_sends_is_bounded_and_cannot_forge_or_prevent_a_line(tmp_path: Path) -> None:
    hostile = [
        entry(agent="x" * 100_000, uri="/" + "y" * 100_000),
        entry(agent='evil"}\n{"kind":"Event"'),
        entry(agent="bytes \udcff", name="bytes \udcfe", user=User("bytes \udcfd", ("g\udcfc",))),
        entry(),
    ]
    events = written(tmp_path / "audit.log", *hostile)
    assert len(events) == 4
    assert len(events[0]["userAgent"]) == 256
    assert len(events[0]["requestURI"]) == 4096
    assert events[2]["user"]["username"] == "bytes ?"


def test_every_event_has_an_id_of_its_own(tmp_path: Path) -> None:
    events = written(tmp_path / "audit.log", entry(audit_id=""), entry(audit_id=""))
    assert len({event["auditID"] for event in events}) == 2


def test_a_request_to_a_logical_cluster_names_it(tmp_path: Path) -> None:
    (event,) = written(tmp_path / "audit.log", entry(cluster="member-1"))
    assert event["annotations"]["echelon.dev/cluster"] == "member-1"


def test_the_file_is_private_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    written(path, entry(audit_id="1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert [event["auditID"] for event in written(path, entry(audit_id="2"))] == ["1", "2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_entries_are_written_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, interval=0.01)
    log.record(entry())
    waiting = threading.Event()
    for _ in range(1000):
        if path.exists() and path.stat().st_size:
            break
        waiting.wait(0.01)
    assert len(lines(path)) == 1
    log.close()


def test_many_entries_from_many_threads_are_all_there_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, interval=0.001)

    def run(number: int) -> None:
        for count in range(700):
            log.record(entry(audit_id=f"{number}-{count}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    seen = [event["auditID"] for event in lines(path)]
    assert sorted(seen) == sorted(f"{number}-{count}" for number in range(4) for count in range(700))
    assert log.dropped == 0


def test_a_full_file_is_turned_over_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, largest=1, keep=2, interval=60)
    for number in range(5):
        log.record(entry(audit_id=str(number)))
        log.flush()
    log.close()
    found = {file.name: [event["auditID"] for event in lines(file)] for file in tmp_path.iterdir()}
    assert found == {"audit.log.1": ["4"], "audit.log.2": ["3"]}


def test_a_full_disk_drops_entries_counts_them_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        log = AuditLog(Path("/dev/full"), interval=60)
        for _ in range(3):
            log.record(entry())
            log.flush()
        log.close()
    assert log.dropped == 3
    assert len(caplog.records) == 1


def test_the_log_goes_on_when_the_disk_does(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    log = AuditLog(path, interval=60)
    log.record(entry(audit_id="lost"))
    log.flush()
    path.parent.mkdir()
    path.write_text('{"torn')
    log.record(entry(audit_id="kept"))
    log.close()
    assert log.dropped == 1
    torn, whole = path.read_text().splitlines()
    assert torn == '{"torn'
    assert json.loads(whole)["auditID"] == "kept"


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("")
    (tmp_path / "audit.log").symlink_to(tmp_path / "victim")
    log = AuditLog(tmp_path / "audit.log")
    log.record(entry())
    log.close()
    assert log.dropped == 1
    assert (tmp_path / "victim").read_text() == ""


def test_closing_twice_and_recording_afterwards_do_no_harm(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.close()
    log.record(entry())
    log.close()
    assert not (tmp_path / "audit.log").exists()
