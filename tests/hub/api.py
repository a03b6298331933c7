"""A client that hides nothing: what goes over the wire is what a test says, and it sees all that comes back."""

import base64
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# Long enough for a busy machine; a test that waits this long has failed.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """A response, all of it."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    warnings: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def message(self) -> str:
        """What a Status says; anything else is a failed test."""
        status = self.json
        assert status["kind"] == "Status", status
        assert status["apiVersion"] == "v1"
        assert status["status"] == "Failure"
        assert status["code"] == self.status
        return str(status["message"])

    @property
    def reason(self) -> str:
        return str(self.message and self.json["reason"])

    @property
    def fields(self) -> list[str]:
        """The fields that a refusal names."""
        return [cause["field"] for cause in self.json.get("details", {}).get("causes", ())]


@dataclass(frozen=True)
class Api:
    """One server, one user."""

    host: str
    port: int
    tls: ssl.SSLContext
    headers: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    kept: http.client.HTTPSConnection | None = None  # for many requests, one after the other

    @classmethod
    def of(cls, kubeconfig: Path, cluster: str = "") -> "Api":
        """Talk to a hub as the user of its kubeconfig, or to one of its logical clusters."""
        config = yaml.safe_load(kubeconfig.read_text())
        server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(server["certificate-authority-data"]).decode()
        address = urlsplit(server["server"])
        assert address.hostname
        assert address.port
        headers = {"Authorization": f"Bearer {user['token']}"}
        prefix = f"/clusters/{cluster}" if cluster else ""
        return cls(address.hostname, address.port, ssl.create_default_context(cadata=authority), headers, prefix)

    def with_headers(self, **changed: str | None) -> "Api":
        """Send other headers; None takes one away."""
        merged = {**self.headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
        return replace(self, headers={name: value for name, value in merged.items() if value is not None})

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=PATIENCE_SECONDS)

    def __call__(
        self, method: str, path: str, body: object = None, content_type: str | None = None, **query: object
    ) -> Answer:
        """Make a request. A body that is neither bytes nor text is sent as JSON."""
        connection = self.kept or self.connect()
        try:
            data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
            if data is None and body is not None:
                data = json.dumps(body).encode()
            headers = dict(self.headers)
            if data is not None:
                headers["Content-Type"] = content_type or "application/json"
            connection.request(method, self.address(path, query), body=data, headers=headers)
            response = connection.getresponse()
            warnings = tuple(response.headers.get_all("Warning") or ())
            return Answer(response.status, dict(response.headers), response.read(), warnings)
        finally:
            if self.kept is None:
                connection.close()

    def address(self, path: str, query: Mapping[str, object]) -> str:
        asked = urlencode(query, doseq=True, quote_via=quote)
        return self.prefix + path + (f"?{asked}" if asked else "")

    def ok(self, method: str, path: str, body: object = None, content_type: str | None = None, **query: object) -> Any:
        """Make a request that must succeed and return the decoded answer."""
        answer = self(method, path, body, content_type, **query)
        assert answer.status in (200, 201), f"{method} {path}: {answer.status} {answer.data.decode()[:2000]}"
        return answer.json

    @contextmanager
    def watch(self, path: str, **query: object) -> Iterator[Iterator[dict[str, Any]]]:
        """Watch; the answer must begin as a stream. Ends with the server, or with the block."""
        with self.lines(path, **{"watch": "true", **query}) as lines:
            yield (json.loads(line) for line in lines)

    @contextmanager
    def lines(self, path: str, **query: object) -> Iterator[Iterator[str]]:
        """Read an answer line by line, as it comes."""
        connection = self.connect()
        try:
            connection.request("GET", self.address(path, query), headers=dict(self.headers))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield (line.decode().rstrip("\n") for line in iter(response.readline, b""))
        finally:
            connection.close()

    def events(self, path: str, **query: object) -> list[dict[str, Any]]:
        """Return everything that a watch says within a second."""
        with self.watch(path, **{"timeoutSeconds": 1, **query}) as stream:
            return list(stream)


def config_map(name: str, /, *, labels: Mapping[str, str] | None = None, **data: str) -> dict[str, Any]:
    """Make the simplest object there is."""
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"


def managed_cluster(name: str, /, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Make a custom resource without a namespace."""
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"hubAcceptsClient": True, **spec},
    }


def deployment(name: str, replicas: int = 2) -> dict[str, Any]:
    """Make something that can be scaled."""
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
