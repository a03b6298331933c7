"""Who may: tokens, certificates, impersonation and the anonymous."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from echelon.hub.access import pki
from tests.hub.api import Api, config_map
from tests.hub.conftest import HubProcess


def test_no_credentials_are_somebody_too(api: Api, maps: str) -> None:
    anybody = api.with_headers(Authorization=None)
    for path in ("/version", "/healthz", "/livez", "/readyz"):
        assert anybody("GET", path).status == 200
    answer = anybody("GET", maps)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    who = 'User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace'
    assert answer.message.startswith(f"configmaps is forbidden: {who}")
    assert answer.json["details"] == {"kind": "configmaps"}


def test_bad_credentials_are_nobodys(api: Api, maps: str) -> None:
    for value in ("Bearer nope", "Bearer ", "Bearer a.b.c"):
        answer = api.with_headers(Authorization=value)("GET", maps)
        assert (answer.status, answer.reason, answer.message) == (401, "Unauthorized", "Unauthorized")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_impersonation_has_the_rights_of_the_other(api: Api, maps: str) -> None:
    namespace = maps.split("/")[4]
    jane = api.with_headers(Impersonate_User="jane")
    assert jane("GET", maps).status == 403
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "readers"},
        "roleRef": reference,
        "subjects": [{"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    api.ok("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
    member = jane.with_headers(Impersonate_Group="team")
    assert member.ok("GET", maps)["items"] == []
    with member.watch(maps) as events:
        api.ok("POST", maps, config_map("a"))
        assert next(events)["type"] == "ADDED"
    assert member("POST", maps, config_map("b")).status == 403
    assert member("GET", "/api/v1/configmaps").status == 403
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = member.ok("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert answer["status"]["userInfo"]["username"] == "jane"


def test_impersonation_needs_a_user_and_the_right_to_it(api: Api, maps: str) -> None:
    answer = api.with_headers(Impersonate_Group="team")("GET", maps)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    namespace = maps.split("/")[4]
    accounts = maps.replace("configmaps", "serviceaccounts")
    api.ok("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = api.ok("POST", f"{accounts}/robot/token", request)["status"]["token"]
    robot = api.with_headers(Authorization=f"Bearer {token}")
    answer = robot("GET", maps)
    assert f'User "system:serviceaccount:{namespace}:robot" cannot list' in answer.message
    answer = robot.with_headers(Impersonate_User="jane")("GET", maps)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert 'cannot impersonate resource "users"' in answer.message


def test_the_token_of_an_account_dies_with_it(api: Api, maps: str) -> None:
    accounts = maps.replace("configmaps", "serviceaccounts")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    api.ok("POST", accounts, account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.ok("POST", f"{accounts}/robot/token", request)["status"]["token"]
    robot = api.with_headers(Authorization=f"Bearer {token}")
    assert robot("GET", maps).status == 403
    api.ok("DELETE", f"{accounts}/robot")
    assert robot("GET", maps).status == 401
    api.ok("POST", accounts, account)  # another robot of the same name
    assert robot("GET", maps).status == 401


@pytest.fixture(scope="module")
def own_hub(tmp_path_factory: pytest.TempPathFactory) -> HubProcess:
    directory = tmp_path_factory.mktemp("own")
    return HubProcess(directory, ["--data", str(directory / "data")])


def test_a_client_certificate_says_who_one_is(own_hub: HubProcess, tmp_path: Path) -> None:
    own_hub.start()
    try:
        keys = pki.open_pki(own_hub.directory / "data" / "pki", ("127.0.0.1",), datetime.now(UTC))
        api = Api.of(own_hub.kubeconfig)
        for user, groups, status in (("root", ("system:masters",), 200), ("jane", ("team",), 403)):
            pair = keys.client_certificate(user, groups, datetime.now(UTC))
            (tmp_path / "cert.pem").write_bytes(pair.certificate_pem)
            (tmp_path / "key.pem").write_bytes(pair.key_pem)
            tls = ssl.create_default_context(cadata=keys.authority.certificate_pem.decode())
            tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
            holder = replace(api, tls=tls, headers={})
            answer = holder("GET", "/api/v1/namespaces/default/configmaps")
            assert answer.status == status
            if status == 403:
                assert 'User "jane" cannot list' in answer.message
    finally:
        assert own_hub.stop() == 0
