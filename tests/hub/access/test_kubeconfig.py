import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, KubeconfigError, UserEntry, merge_kubeconfig
from kubernetes import config as official

HUB = ClusterEntry("echelon", "https://127.0.0.1:6443", b"AUTHORITY")
MEMBER = ClusterEntry("echelon-member", "https://127.0.0.1:6443/clusters/member", b"AUTHORITY")
ADMIN = UserEntry("echelon", token="t0p", certificate_pem=b"CERT", key_pem=b"KEY")


def merge(path: Path, current: str = "echelon") -> dict[str, Any]:
    contexts = [
        ContextEntry("echelon", "echelon", "echelon"),
        ContextEntry("echelon-member", "echelon-member", "echelon", "team"),
    ]
    merge_kubeconfig(path, [HUB, MEMBER], [ADMIN], contexts, current)
    return load(path)


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_a_new_file_has_a_context_for_every_cluster(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    authority = base64.b64encode(b"AUTHORITY").decode()
    assert merge(path) == {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {"name": entry.name, "cluster": {"server": entry.server, "certificate-authority-data": authority}}
            for entry in (HUB, MEMBER)
        ],
        "users": [
            {
                "name": "echelon",
                "user": {
                    "client-certificate-data": base64.b64encode(b"CERT").decode(),
                    "client-key-data": base64.b64encode(b"KEY").decode(),
                    "token": "t0p",
                },
            }
        ],
        "contexts": [
            {"name": "echelon", "context": {"cluster": "echelon", "user": "echelon"}},
            {
                "name": "echelon-member",
                "context": {"cluster": "echelon-member", "user": "echelon", "namespace": "team"},
            },
        ],
        "current-context": "echelon",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_official_client_reads_it(tmp_path: Path) -> None:
    merge(tmp_path / "config")
    contexts, current = official.list_kube_config_contexts(str(tmp_path / "config"))
    assert [context["name"] for context in contexts] == ["echelon", "echelon-member"]
    assert current["name"] == "echelon"


FOREIGN = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [
        {"name": "prod", "cluster": {"server": "https://prod", "extensions": [{"name": "x", "extension": {"a": 1}}]}},
        {"name": "echelon", "cluster": {"server": "https://old"}},
    ],
    "users": [{"name": "prod", "user": {"exec": {"command": "login"}}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "prod"}}],
    "current-context": "prod",
    "x-own": {"kept": True},
}


def test_what_belongs_to_others_survives_and_our_own_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(FOREIGN))
    path.chmod(0o644)
    config = merge(path)
    assert config["clusters"][0] == FOREIGN["clusters"][0]  # type: ignore[index]
    assert [entry["name"] for entry in config["clusters"]] == ["prod", "echelon", "echelon-member"]
    assert config["clusters"][1]["cluster"]["server"] == HUB.server
    assert config["users"][0] == FOREIGN["users"][0]  # type: ignore[index]
    assert config["contexts"][0] == FOREIGN["contexts"][0]  # type: ignore[index]
    assert config["x-own"] == {"kept": True}
    assert config["current-context"] == "echelon"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_current_context_stays_unless_another_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(FOREIGN))
    assert merge(path, current="")["current-context"] == "prod"


def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    assert merge(tmp_path / "config") == merge(tmp_path / "config")


def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    assert len(merge(tmp_path / "config")["clusters"]) == 2
    (tmp_path / "nulls").write_text("clusters: null\nusers:\n")
    assert len(merge(tmp_path / "nulls")["users"]) == 1


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(yaml.safe_dump(FOREIGN))
    (tmp_path / "config").symlink_to(tmp_path / "real")
    merge(tmp_path / "config")
    assert (tmp_path / "config").is_symlink()
    assert len(load(tmp_path / "real")["clusters"]) == 3


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("users:\n- token: s3cret: [", "not valid YAML at line 2"),
        ("a: !!python/object/apply:os.system ['echo s3cret']", "not valid YAML"),
        ("- s3cret", "should be a mapping"),
        ("kind: Secret\nstringData: s3cret", "kind Config"),
        ("apiVersion: v2\nx: s3cret", "apiVersion v1"),
        ("clusters: s3cret", "clusters should be a list"),
        ("users: [s3cret]", "users should be a list"),
        ("contexts: [{context: s3cret}]", "contexts should be a list"),
        ("\x00s3cret", "not valid YAML"),
        ("[" * 1500 + "s3cret", "not valid YAML"),
        ("# s3cret\n" + "x" * 5_000_000, "larger"),
    ],
)
def test_a_broken_file_is_left_alone_and_reported_without_its_content(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match=text) as caught:
        merge(path)
    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert path.read_text() == content
    assert [file.name for file in tmp_path.iterdir()] == ["config"]
