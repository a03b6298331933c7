"""What accounts were seen to do, by a server's audit log, and what roles let them do."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from echelon.api.base import JSONObject


class Right(NamedTuple):
    """One thing that an account may do, or has done."""

    group: str
    resource: str  # with its subresource
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True)
class Call:
    """A call that a server has answered."""

    user: str
    right: Right
    where: str
    code: int


def audit_policy(users: Sequence[str]) -> JSONObject:
    """Return a policy that notes every call of some users, and nobody else's."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": list(users)}, {"level": "None"}],
    }


def calls(log: Path) -> Iterator[Call]:
    """Return the calls for resources in an audit log; the last line may not be whole yet."""
    for line in log.read_text().splitlines():
        if not line.endswith("}"):
            continue
        event = json.loads(line)
        about = event.get("objectRef")
        if about is None or "resource" not in about:
            continue  # discovery, versions and the like
        resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
        right = Right(about.get("apiGroup", ""), resource, event["verb"])
        where = "/".join(filter(None, (about.get("namespace", ""), about.get("name", ""))))
        yield Call(event["user"]["username"], right, where, event.get("responseStatus", {}).get("code", 0))


def granted(manifests: Iterable[JSONObject], account: str) -> set[Right]:
    """Return what the roles among some manifests let an account do."""
    documents = list(manifests)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in documents if "rules" in each}
    found: set[Right] = set()
    for each in documents:
        if not each["kind"].endswith("RoleBinding") or account not in [one["name"] for one in each["subjects"]]:
            continue
        role = roles.get((each["roleRef"]["kind"], each["roleRef"]["name"]))
        for rule in role["rules"] if role is not None else ():  # others are Kubernetes' own
            found |= {
                Right(group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return found
