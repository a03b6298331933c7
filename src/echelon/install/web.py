"""The dashboard beside the controllers: pods whose account may do nothing, not even by accident.

Everything that it shows and does, it does with the credential of whoever is signed in. So no token is mounted; of the
hub it gets the address and the certificate authority that every namespace has.
"""

from typing import Final

from echelon.install.labels import labels_of, selector_of
from echelon.install.pods import Port, deployment, network_policy
from echelon.install.settings import FLAG, OBJECTS, TEXT, Setting
from echelon.install.template import NAMESPACE, Node, Value, When, joined

NAME: Final = "echelon-web"
_COMPONENT: Final = "web"
_ENABLED, _SECRET, _URL, _SERVER = "web.enabled", "web.tlsSecret", "web.url", "web.server"
_PORT = Port("web", 8443, When(_SECRET, "HTTPS", "HTTP"))
_HUB, _TLS = "/etc/echelon/hub", "/etc/echelon/tls"

# It becomes a part of a text that is JSON.
_ADDRESS = {**TEXT, "pattern": r"^https://[A-Za-z0-9.:/\[\]-]+$"}

SETTINGS: tuple[Setting, ...] = (
    Setting(
        _ENABLED,
        False,
        FLAG,
        "Run the dashboard for browsers. It has no rights: people sign in with their own.\n"
        "It starts with a certificate (web.tlsSecret) or behind a proxy that has one (web.url).",
    ),
    Setting(
        _SECRET, "", TEXT, "Secret of type kubernetes.io/tls with its certificate. Empty: a proxy before it has one."
    ),
    Setting(
        _URL,
        "",
        {**TEXT, "pattern": "^(https://.+)?$"},
        "Where browsers find it, if a proxy is before it: https://HOST.",
    ),
    Setting(_SERVER, "https://kubernetes.default.svc", _ADDRESS, "The hub, as pods reach it."),
    Setting("web.from", [], OBJECTS, "Who may reach it: peers of a NetworkPolicy. Empty: everybody."),
)


def dashboard() -> list[Node]:
    """Return the dashboard, if it is wanted."""
    return [When(_ENABLED, each) for each in (_account(), _hub(), _pods(), _service(), _policy())]


def _meta() -> Node:
    return {"name": NAME, "namespace": NAMESPACE, "labels": labels_of(_COMPONENT)}


def _account() -> Node:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(), "automountServiceAccountToken": False}


def _hub() -> Node:
    """Return where the hub is and how to recognise it, as a kubeconfig without a user."""
    config = joined(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "hub", "contexts": [{"name": "hub", "context": '
        '{"cluster": "hub"}}], "clusters": [{"name": "hub", "cluster": {"server": "',
        Value(_SERVER),
        f'", "certificate-authority": "{_HUB}/ca.crt"}}}}]}}',
    )
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(), "data": {"kubeconfig": config}}


def _pods() -> Node:
    arguments = (
        "dashboard",
        f"--kubeconfig={_HUB}/kubeconfig",
        f"--listen=:{_PORT.number}",
        "--log-format=json",
        joined("--log-level=", Value("logLevel")),
        When(_SECRET, f"--tls-cert={_TLS}/tls.crt"),
        When(_SECRET, f"--tls-key={_TLS}/tls.key"),
        When(_URL, joined("--url=", Value(_URL))),
    )
    sources = [{"configMap": {"name": NAME}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    return deployment(
        NAME,
        _COMPONENT,
        arguments,
        replicas=1,  # sessions are in its memory
        strategy={"type": "Recreate"},
        mounts=[
            {"name": "hub", "mountPath": _HUB, "readOnly": True},
            When(_SECRET, {"name": "tls", "mountPath": _TLS, "readOnly": True}),
        ],
        volumes=[
            {"name": "hub", "projected": {"sources": sources}},
            When(_SECRET, {"name": "tls", "secret": {"secretName": Value(_SECRET)}}),
        ],
        account=NAME,
        port=_PORT,
        rights=False,
    )


def _service() -> Node:
    ports = [{"name": "web", "port": 443, "targetPort": _PORT.name, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(),
        "spec": {"selector": selector_of(_COMPONENT), "ports": ports},
    }


def _policy() -> Node:
    return network_policy(NAME, _COMPONENT, _PORT, "web.from")
