import base64
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.hub.access.pki import Pki, make_pki
from echelon.kube import proxy
from echelon.kube.config import (
    AuthProviderRemoved,
    ClusterConfig,
    ConfigError,
    FileNotReadable,
    InvalidField,
    NoConfiguration,
    NoCurrentContext,
    UnknownEntry,
    load,
)
from echelon.kube.kubeconfig import NotYAML, read

SECRET = "hunter2"


@pytest.fixture(scope="session")
def pki() -> Pki:
    return make_pki(["127.0.0.1"], datetime.now(UTC))


def kubeconfig(
    directory: Path,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    name: str = "config",
    **context: str,
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
    }
    path = directory / name
    path.write_text(yaml.safe_dump(document))
    return path


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_context_gives_server_user_and_namespace(tmp_path: Path) -> None:
    config = load(kubeconfig(tmp_path, {"tls-server-name": "inner"}, {"token": SECRET}, namespace="blue"), environ={})
    assert (config.server, config.namespace, config.tls_server_name) == (
        "https://cluster.example:6443",
        "blue",
        "inner",
    )
    assert config.user.token == SECRET


def test_the_namespace_is_default_if_the_context_has_none(tmp_path: Path) -> None:
    assert load(kubeconfig(tmp_path), environ={}).namespace == "default"


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("https://hub.example:6443", "https://hub.example:6443"),
        ("https://hub.example:6443/", "https://hub.example:6443/"),
        ("https://Hub.example", "https://Hub.example"),
        ("HTTPS://hub.example", "https://hub.example"),
        ("hub.example", "hub.example"),
        ("10.0.0.1:6443", "10.0.0.1:6443"),
        ("localhost:6443", "localhost:6443"),
    ],
)
def test_the_server_is_also_known_as_client_go_spells_it(tmp_path: Path, written: str, spelled: str) -> None:
    assert load(kubeconfig(tmp_path, {"server": written}), environ={}).host == spelled


def test_a_path_in_the_server_url_survives_and_its_last_slash_does_not(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"server": "https://hub.example/clusters/blue/"})
    assert load(path, environ={}).server == "https://hub.example/clusters/blue"


def test_files_of_the_environment_are_merged_as_kubectl_merges_them(tmp_path: Path, kubectl: str) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "a", "cluster": {"server": "https://first:1"}}],
                "contexts": [{"name": "one", "context": {"cluster": "a", "user": "u"}}],
                "users": None,
            }
        )
    )
    second.write_text(
        yaml.safe_dump(
            {
                "current-context": "two",
                "clusters": [
                    {"name": "a", "cluster": {"server": "https://second:1", "tls-server-name": "lost"}},
                    {"name": "b", "cluster": {"server": "https://second:2"}},
                ],
                "contexts": [
                    {"name": "one", "context": {"cluster": "b", "user": "u", "namespace": "lost"}},
                    {"name": "two", "context": {"cluster": "a", "user": "u"}},
                ],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    environ = {"KUBECONFIG": os.pathsep.join(map(str, [first, tmp_path / "missing", second]))}
    command = [kubectl, "config", "view", "--raw", "-o", "json"]
    seen = json.loads(subprocess.run(command, env={**os.environ, **environ}, capture_output=True, check=True).stdout)

    merged = read([first, tmp_path / "missing", second])
    assert merged.current_context == seen["current-context"]
    assert {name: entry.value.server for name, entry in merged.clusters.items()} == {
        item["name"]: item["cluster"]["server"] for item in seen["clusters"]
    }
    assert {name: (entry.value.cluster, entry.value.namespace) for name, entry in merged.contexts.items()} == {
        item["name"]: (item["context"]["cluster"], item["context"].get("namespace", "")) for item in seen["contexts"]
    }
    assert load(environ=environ).server == "https://first:1"
    assert load(environ=environ).tls_server_name == ""


def test_the_home_directory_is_where_the_kubeconfig_is_by_default(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube")
    assert load(environ={"HOME": str(tmp_path)}).server == "https://cluster.example:6443"


def test_paths_are_relative_to_the_file_that_has_them(tmp_path: Path, pki: Pki) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "ca.crt").write_bytes(pki.authority.certificate_pem)
    (inner / "token").write_text("from-file\n")
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
    path = kubeconfig(inner, {"certificate-authority": "ca.crt"}, {"tokenFile": "token", "exec": exec_})
    config = load(path, environ={})
    assert config.authority == pki.authority.certificate_pem
    assert config.user.token_file == inner / "token"
    assert config.user.plugin is not None
    assert Path(config.user.plugin.command) == inner / "plugin"


def test_certificates_come_as_data_or_from_files(tmp_path: Path, pki: Pki) -> None:
    issued = pki.client_certificate("ann", [], datetime.now(UTC))
    data = {
        "client-certificate-data": in_base64(issued.certificate_pem),
        "client-key-data": in_base64(issued.key_pem),
    }
    config = load(kubeconfig(tmp_path, user=data), environ={})
    assert (config.user.certificate, config.user.key) == (issued.certificate_pem, issued.key_pem)
    (tmp_path / "tls.crt").write_bytes(issued.certificate_pem)
    (tmp_path / "tls.key").write_bytes(issued.key_pem)
    files = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    assert load(kubeconfig(tmp_path, user=files), environ={}).user.key == tmp_path / "tls.key"


def test_a_key_of_another_certificate_is_refused_at_once(tmp_path: Path, pki: Pki) -> None:
    one, two = (pki.client_certificate(name, [], datetime.now(UTC)) for name in ("one", "two"))
    user = {"client-certificate-data": in_base64(one.certificate_pem), "client-key-data": in_base64(two.key_pem)}
    with pytest.raises(InvalidField, match="client-key: does not belong"):
        load(kubeconfig(tmp_path, user=user), environ={})


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("user", "field", "rule"),
    [
        ({"token": SECRET, "username": "a"}, "users[u].user.token", "must not be set together"),
        ({"token": 12345}, "users[0].user.token", "Expected str, got int"),
        ({"token": SECRET + "\nx"}, "users[u].user.token", "cannot be sent"),
        ({"client-certificate-data": SECRET + "%"}, "client-certificate-data", "must be base64"),
        ({"client-certificate-data": in_base64(SECRET.encode())}, "client-key", "must be set"),
        ({"as-groups": ["g"]}, "users[u].user.as", "must be set when"),
        ({"exec": {**EXEC, "command": ""}}, "exec.command", "must be set"),
        ({"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "exec.apiVersion", "must be"),
        ({"exec": {**EXEC, "interactiveMode": ""}}, "exec.interactiveMode", "must be"),
        ({"exec": {**EXEC, "env": [{"value": SECRET}]}}, "exec.env", "must have a name"),
    ],
)
def test_a_bad_user_is_named_by_file_field_and_rule(
    tmp_path: Path, user: dict[str, Any], field: str, rule: str
) -> None:
    path = kubeconfig(tmp_path, user=user)
    with pytest.raises(InvalidField) as caught:
        load(path, environ={})
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert field in text
    assert rule in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("cluster", "field"),
    [
        ({"server": ""}, "server"),
        ({"server": "ftp://x"}, "server"),
        ({"server": f"https://u:{SECRET}@x"}, "server"),
        ({"server": "https://x:99999999"}, "server"),
        ({"proxy-url": f"ftp://u:{SECRET}@x"}, "proxy-url"),
        ({"proxy-url": "proxy:3128"}, "proxy-url"),
        ({"proxy-url": "socks5://proxy:1080"}, "proxy-url"),
        ({"certificate-authority-data": "YQ=="}, "certificate-authority"),
        ({"certificate-authority-data": "YQ==", "certificate-authority": "x"}, "certificate-authority"),
        ({"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
    ],
)
def test_a_bad_cluster_is_named_by_file_field_and_rule(tmp_path: Path, cluster: dict[str, Any], field: str) -> None:
    path = kubeconfig(tmp_path, cluster)
    with pytest.raises(InvalidField) as caught:
        load(path, environ={})
    assert str(caught.value).startswith(f"{path}: clusters[c].cluster.{field}: must ")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("content", ["users: [}", "a: b: c", "\tx", "token: *hunter2", "a: \x01hunter2"])
def test_what_is_not_yaml_is_said_without_quoting_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(NotYAML) as caught:
        load(path, environ={})
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("content", ["- 1\n", "kind: Pod\n", "clusters: 3\n"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(InvalidField):
        load(path, environ={})


def test_two_entries_of_one_name_in_a_file_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": SECRET}}, {"name": "u"}]}))
    with pytest.raises(InvalidField, match="unique") as caught:
        load(path, environ={})
    assert SECRET not in str(caught.value)


def test_names_that_lead_nowhere_are_mistakes_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UnknownEntry, match='context "other" does not exist'):
        load(kubeconfig(tmp_path), "other", environ={})
    with pytest.raises(UnknownEntry, match=r'contexts\[here\].context.cluster: cluster "gone" does not exist'):
        load(_dangling(tmp_path), environ={})
    path = kubeconfig(tmp_path)
    path.write_text(path.read_text().replace("current-context: here", "current-context: ''"))
    with pytest.raises(NoCurrentContext, match="contexts that exist: here"):
        load(path, environ={})


def _dangling(tmp_path: Path) -> Path:
    path = kubeconfig(tmp_path, name="dangling")
    path.write_text(path.read_text().replace("cluster: c\n", "cluster: gone\n"))
    return path


def test_files_that_are_needed_must_be_readable(tmp_path: Path) -> None:
    with pytest.raises(FileNotReadable, match="No such file"):
        load(tmp_path / "none", environ={})
    with pytest.raises(FileNotReadable, match=r"users\[u\].user.tokenFile: .*none: No such file"):
        load(kubeconfig(tmp_path, user={"tokenFile": "none"}), environ={})
    with pytest.raises(FileNotReadable, match=r"certificate-authority: .*none"):
        load(kubeconfig(tmp_path, {"certificate-authority": "none"}), environ={})
    with pytest.raises(FileNotReadable, match="Is a directory"):
        load(tmp_path, environ={})


def test_an_auth_provider_is_said_to_be_removed(tmp_path: Path) -> None:
    with pytest.raises(AuthProviderRemoved, match='auth provider "gcp" has been removed'):
        load(kubeconfig(tmp_path, user={"auth-provider": {"name": "gcp"}}), environ={})


def test_secrets_are_not_in_the_printed_form(tmp_path: Path, pki: Pki) -> None:
    issued = pki.client_certificate("ann", [], datetime.now(UTC))
    exec_ = {**EXEC, "args": [SECRET], "env": [{"name": "E", "value": SECRET}]}
    user = {
        "password": SECRET,
        "username": "ann",
        "exec": exec_,
        "client-certificate-data": in_base64(issued.certificate_pem),
        "client-key-data": in_base64(issued.key_pem),
    }
    printed = repr(load(kubeconfig(tmp_path, {"proxy-url": f"http://u:{SECRET}@proxy:1"}, user), environ={}))
    assert "ann" in printed
    assert SECRET not in printed
    assert "PRIVATE" not in printed
    assert SECRET not in repr(load(kubeconfig(tmp_path, user={"token": SECRET}), environ={}))


def service_account(directory: Path, pki: Pki) -> Path:
    (directory / "token").write_text("pod-token")
    (directory / "ca.crt").write_bytes(pki.authority.certificate_pem)
    (directory / "namespace").write_text("blue\n")
    return directory


def test_a_pod_without_kubeconfig_talks_to_its_own_cluster(tmp_path: Path, pki: Pki) -> None:
    environ = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = load(environ=environ, service_account=service_account(tmp_path, pki))
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "blue")
    assert config.authority == pki.authority.certificate_pem
    assert config.user.token_file == tmp_path / "token"


def test_a_kubeconfig_comes_before_the_pods_cluster(tmp_path: Path, pki: Pki) -> None:
    environ = {"KUBECONFIG": str(kubeconfig(tmp_path)), "KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    assert load(environ=environ, service_account=service_account(tmp_path, pki)).server != "https://h:1"


def test_without_any_configuration_the_places_looked_at_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoConfiguration, match=str(tmp_path)):
        load(environ={"HOME": str(tmp_path)})


def test_a_pod_without_a_token_says_so(tmp_path: Path) -> None:
    environ = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(FileNotReadable, match="token"):
        load(environ=environ, service_account=tmp_path)


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        ("https://a.example", "", True),
        ("https://a.example", "*", False),
        ("https://a.example", "b.example, A.Example", False),
        ("https://sub.a.example", "a.example", False),
        ("https://xa.example", "a.example", True),
        ("https://a.example", ".a.example", True),
        ("https://sub.a.example", ".a.example", False),
        ("https://sub.a.example", "*.a.example", False),
        ("https://a.example:6443", "a.example:6443", False),
        ("https://a.example:6443", "a.example:443", True),
        ("https://a.example", "a.example:443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://ten.example", "10.0.0.0/8", True),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://a.example", "", False),
    ],
)
def test_proxies_of_the_environment_follow_the_rules_of_kubectl(server: str, exceptions: str, proxied: bool) -> None:
    environ = {"HTTPS_PROXY": "proxy.example:3128", "NO_PROXY": exceptions}
    assert proxy.from_environment(server, environ) == ("http://proxy.example:3128" if proxied else "")


def test_lower_case_variables_count_and_a_bad_proxy_is_named_without_its_password(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    assert load(path, environ={"https_proxy": "http://p:1"}).proxy_url == "http://p:1"
    with pytest.raises(ConfigError, match="HTTPS_PROXY: must be") as caught:
        load(path, environ={"HTTPS_PROXY": f"gopher://u:{SECRET}@p"})
    assert SECRET not in str(caught.value)


def test_the_proxy_of_a_cluster_comes_before_the_environment(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"proxy-url": "http://own:1"})
    assert load(path, environ={"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"}).proxy_url == "http://own:1"


def test_a_configuration_is_a_value() -> None:
    assert ClusterConfig("https://x") == ClusterConfig("https://x")
