"""The judge of pod deletions is judged: it has to see what is wrong, and nothing else."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.pod_audit import Group, below_the_floor, read_writes

ECHELON = "echelon"


class Log:
    """An audit log that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] = []

    def write(self, verb: str, clique: str, index: int, *, ready: bool = True, user: str = ECHELON) -> None:
        name = f"{clique}-{index}"
        labels = {"grove.io/podclique": clique}
        if clique.startswith("s-0-g-"):
            labels |= {
                "grove.io/podcliquescalinggroup": "s-0-g",
                "grove.io/podcliquescalinggroup-replica-index": clique.split("-")[3],
            }
        meta = {"name": name, "uid": name, "labels": labels, "resourceVersion": str(len(self._lines) + 100)}
        status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        event: dict[str, Any] = {
            "verb": verb,
            "user": {"username": user},
            "responseStatus": {"code": 200},
            "responseObject": {"kind": "Pod", "metadata": meta, "status": status},
        }
        self._lines.append(json.dumps(event))
        self.path.write_text("\n".join(reversed(self._lines)))  # a log is not in the order of versions


def judged(log: Log) -> list[str]:
    group = Group({"a": 1, "b": 2}, floor=1)
    return list(below_the_floor(read_writes(log.path), ECHELON, {"s-0-front": 1}, {"s-0-g": group}))


def test_a_ready_pod_that_goes_at_the_floor_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write("patch", "s-0-front", 0)
    log.write("patch", "s-0-front", 1)
    log.write("delete", "s-0-front", 0)
    assert judged(log) == []
    log.write("delete", "s-0-front", 1)
    assert judged(log) == ["s-0-front: 0 of at least 1 left when s-0-front-1 went"]


def test_what_is_not_ready_and_what_others_delete_is_nobodys_fault(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write("patch", "s-0-front", 0)
    log.write("delete", "s-0-front", 0, user="somebody")
    log.write("create", "s-0-front", 2, ready=False)
    log.write("delete", "s-0-front", 2, ready=False)
    assert judged(log) == []


def test_a_group_loses_a_replica_with_its_first_pod(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    for replica in (0, 1):
        for clique, index in (("a", 0), ("b", 0), ("b", 1)):
            log.write("patch", f"s-0-g-{replica}-{clique}", index)
    for clique, index in (("b", 0), ("b", 1), ("a", 0)):
        log.write("delete", f"s-0-g-0-{clique}", index)
    assert judged(log) == []
    log.write("delete", "s-0-g-1-b", 1)
    assert judged(log) == ["s-0-g: 0 of at least 1 left when s-0-g-1-b-1 went"]
