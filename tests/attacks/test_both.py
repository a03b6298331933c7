"""Attacks with the same answers from the embedded hub and from kube-apiserver."""

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.attacks.hub import attacked_hub
from tests.hub.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Api, config_map

YAML = "application/yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
MIB = 1 << 20


def api_of(kubeconfig: Path, directory: Path) -> Api:
    """Talk to a server as the user of a kubeconfig, who has a certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]

    def content(entry: dict[str, Any], name: str) -> bytes:
        data = entry.get(f"{name}-data")
        return base64.b64decode(data) if data else Path(entry[name]).read_bytes()

    tls = ssl.create_default_context(cadata=content(server, "certificate-authority").decode())
    pair = directory / "pair.pem"
    pair.write_bytes(content(user, "client-certificate") + b"\n" + content(user, "client-key"))
    tls.load_cert_chain(pair)
    address = urlsplit(server["server"])
    assert address.hostname
    assert address.port
    return Api(address.hostname, address.port, tls)


@pytest.fixture(scope="module", params=["hub", "kubernetes"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    directory = tmp_path_factory.mktemp("both")
    if request.param == "hub":
        with attacked_hub(directory) as running:
            yield running.admin
    else:
        yield api_of(request.getfixturevalue("control_plane").kubeconfig, directory)


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 9) + "]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


BODIES: dict[str, tuple[str, str, int]] = {
    "aliases of aliases": (bomb(9), YAML, 400),
    "a string of escaped quotes that never ends": ('{"data":{"a":"' + '\\"' * MIB, "application/json", 400),
    "more than is read": (json.dumps(config_map("a", text="x" * 3 * MIB)), "application/json", 413),
    "more than a config map may have": (json.dumps(config_map("a", text="x" * (MIB + 1))), "application/json", 422),
    "no object": ("[" * 5000, "application/json", 400),
    "no text": ("\x00\x01", YAML, 400),
    "another format": ("<a/>", "application/xml", 415),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(server: Api, name: str) -> None:
    body, media, status = BODIES[name]
    assert server("POST", MAPS, body, media, dryRun="All").status == status


ODD_YAML = {
    "a number of four hundred digits": "data: {a: " + "9" * 400 + "}",
    "two documents": "a: b\n---\nc: d\n",
    "a tag that names code": "a: !!python/object/apply:os.system [id]\n",
}


@pytest.mark.parametrize("name", ODD_YAML)
def test_odd_yaml_makes_nothing(server: Api, name: str) -> None:
    """One refuses the document, the other what is left of it."""
    body = "kind: ConfigMap\napiVersion: v1\n" + ODD_YAML[name]
    assert server("POST", MAPS, body, YAML, dryRun="All").status in (400, 422)


QUERIES: list[tuple[str, str, int]] = [
    ("limit", "-1", 200),
    ("limit", "x", 400),
    ("limit", "9223372036854775808", 400),
    ("timeoutSeconds", "x", 400),
    ("continue", "garbage", 400),
    ("resourceVersion", "-1", 400),
    ("resourceVersion", "x", 400),
    ("labelSelector", "a in (", 400),
    ("labelSelector", "a" * 64, 400),
    ("labelSelector", ",".join(f"!k{number}" for number in range(4000)), 200),
    ("fieldSelector", "spec.nothing=x", 400),
    ("fieldSelector", "=", 200),
    ("resourceVersionMatch", "Exact", 422),
    ("sendInitialEvents", "true", 422),
]


@pytest.mark.parametrize(("name", "value", "status"), QUERIES, ids=lambda value: str(value)[:24])
def test_parameters(server: Api, name: str, value: str, status: int) -> None:
    assert server("GET", MAPS, **{name: value}).status == status


DEEP: Any = None
for _ in range(90):
    DEEP = {"a": DEEP}
PATCHES: dict[str, tuple[object, str, int]] = {
    "operations without end": ([{"op": "test", "path": "/metadata/name", "value": "p"}] * 10_001, JSON_PATCH, 413),
    "an object copied into itself": ([{"op": "copy", "from": "/data", "path": "/data/a"}] * 40, JSON_PATCH, 422),
    "no list": ({"op": "add"}, JSON_PATCH, 400),
    "a list": ([], MERGE_PATCH, 400),
    "nothing": ("", MERGE_PATCH, 400),
    "another name": ({"metadata": {"name": "other"}}, MERGE_PATCH, 400),
    "without a manager": (config_map("p"), APPLY_PATCH, 422),
    "below fields that are none": ({"data": DEEP}, MERGE_PATCH, 422),
}


@pytest.fixture(scope="module")
def patched(server: Api) -> str:
    made = server.ok("POST", MAPS, {"metadata": {"generateName": "patched-"}, "data": {"a": "b"}})
    return str(made["metadata"]["name"])


@pytest.mark.parametrize("name", PATCHES)
def test_patches(server: Api, patched: str, name: str) -> None:
    body, media, status = PATCHES[name]
    assert server("PATCH", f"{MAPS}/{patched}", body, media, dryRun="All").status == status


def test_a_role_that_stands_for_many_rights_is_refused_to_who_lacks_them(server: Api) -> None:
    """Thirty groups, resources and verbs: 27,000 rights, and not the asker's."""
    rule = {name: [f"{name[0]}{number}" for number in range(30)] for name in ("apiGroups", "resources", "verbs")}
    body = {"metadata": {"name": "many"}, "rules": [rule]}
    asker = server.with_headers(Impersonate_User="somebody-without-rights")
    assert asker("POST", ROLES, body, dryRun="All").status == 403
