"""The dashboard as it is installed: it has no rights, and starts with what it is given."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from echelon.api.base import JSONObject
from echelon.cli import main
from echelon.dashboard.server import InTheClear, Settings
from echelon.install.hub import HUB
from echelon.install.settings import BadSettings
from echelon.install.web import NAME
from echelon.kube.config import load

IMAGE = {"image": {"repository": "registry.example/echelon"}}


def _installed(**web: Any) -> list[JSONObject]:
    return list(HUB.manifests({**IMAGE, "web": {"enabled": True, **web}}))


def _one(objects: list[JSONObject], kind: str) -> JSONObject:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == NAME]
    return found


def test_it_is_there_only_if_it_is_wanted() -> None:
    assert not any(each["metadata"]["name"] == NAME for each in HUB.manifests(IMAGE))


def test_its_account_is_bound_to_nothing_and_no_token_of_it_is_mounted() -> None:
    objects = _installed(tlsSecret="web")
    pod = _one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    assert pod["automountServiceAccountToken"] is False
    assert _one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    bound = [
        subject["name"]
        for each in objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding")
        for subject in each["subjects"]
    ]
    assert NAME not in bound
    assert "serviceAccountToken" not in json.dumps(pod["volumes"])


def test_it_finds_the_hub_without_being_anybody(tmp_path: Path) -> None:
    text = _one(_installed(), "ConfigMap")["data"]["kubeconfig"]
    file = tmp_path / "kubeconfig"
    file.write_text(
        text.replace("/etc/echelon/hub/ca.crt", str(tmp_path / "ca.crt")).replace("certificate-authority", "x")
    )
    found = load(file)
    assert found.server == "https://kubernetes.default.svc"
    assert found.user.token == ""
    with pytest.raises(BadSettings, match=r"web\.server"):
        _installed(server='https://hub", "insecure-skip-tls-verify": true, "x": "')


@pytest.mark.parametrize("web", [{"tlsSecret": "web"}, {"url": "https://fleet.example"}])
def test_its_arguments_are_those_of_the_command(web: dict[str, str]) -> None:
    (container,) = _one(_installed(**web), "Deployment")["spec"]["template"]["spec"]["containers"]
    said = CliRunner().invoke(main, [*container["args"], "--help"])
    assert said.exit_code == 0, said.output
    options = {each.partition("=")[0] for each in container["args"][1:]}
    assert all(each in said.output for each in options)


def test_tokens_do_not_go_over_a_network_in_clear() -> None:
    for host in ("", "0.0.0.0", "10.0.0.1", "fleet.example"):  # noqa: S104 - that is what is refused
        with pytest.raises(InTheClear, match="--tls-cert"):
            Settings(host, 80).check()
        Settings(host, 80, url="https://fleet.example").check()
    for host in ("127.0.0.1", "::1", "localhost"):
        Settings(host, 80).check()
    said = CliRunner().invoke(main, ["dashboard", "--listen", ":8443"])
    assert said.exit_code == 2
    assert "would read the tokens" in said.output
