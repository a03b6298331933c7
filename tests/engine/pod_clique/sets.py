"""Sets to try things with: short ones by hand, and any that a user could write."""

import copy
from typing import Any

from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.plan import Create
from echelon.engine.pod_clique.accepting import Accepted, accept
from echelon.engine.pod_clique.revisions import SetRevision, read_revision
from echelon.engine.pod_clique.set_spec import SetSpec, Settings

IMAGE = Settings(init_image="registry.example/waiter:1")


def clique(name: str, replicas: int = 1, *, pod_spec: JSONObject | None = None, **more: Any) -> JSONObject:
    """Return a clique; `labels`, `annotations` and `rollingUpdate` are its own, anything else is of its spec."""
    outside: JSONObject = {key: more.pop(key) for key in ("labels", "annotations", "rollingUpdate") if key in more}
    spec = {"roleName": name, "replicas": replicas, "podSpec": pod_spec or pods(), **more}
    return {"name": name, **outside, "spec": spec}


def pods(image: str = "registry.example/c:1", **more: Any) -> JSONObject:
    return {"containers": [{"name": "c", "image": image}], **more}


def group(name: str, *cliques: str, **more: Any) -> JSONObject:
    return {"name": name, "cliqueNames": list(cliques), **more}


def a_set(
    *cliques: JSONObject, name: str = "w", replicas: int = 1, groups: Any = (), strategy: str = "", **template: Any
) -> JSONObject:
    spec: JSONObject = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    if groups:
        spec["template"]["podCliqueScalingGroups"] = list(groups)
    if strategy:
        spec["updateStrategy"] = {"type": strategy}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}", "generation": 1}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


def spec_of(body: JSONObject, *revisions: SetRevision, settings: Settings = IMAGE) -> SetSpec:
    found = accept(body, revisions, settings)
    assert isinstance(found, Accepted), found
    return found.spec


def stored(write: Any, uid: str = "r") -> SetRevision:
    """Return a revision that is to be created as it is read back."""
    assert isinstance(write, Create)
    body = copy.deepcopy(write.body)
    body["metadata"] |= {"uid": uid, "resourceVersion": "1"}
    revision = read_revision(body)
    assert revision is not None
    return revision


# Names that are built from few parts meet often.
_PART = st.sampled_from(("a", "b", "0", "1", "10", "w", "01"))
NAMES = st.lists(_PART, min_size=1, max_size=4).map("-".join)
_TEXTS = st.sampled_from(("", "x", "y"))
_MAPS = st.dictionaries(st.sampled_from(("a", "example.com/b", "hostname", "app.kubernetes.io/name")), _TEXTS)
_ENV = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(("A", "B", "GROVE_PCS_NAME"))}, optional={"value": _TEXTS}),
    max_size=2,
    unique_by=lambda each: each["name"],
)
_RESOURCES = st.fixed_dictionaries({}, optional={"limits": st.just({"cpu": "1"}), "requests": st.just({})})
_CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c"), "image": st.sampled_from(("registry.example/c:1", "registry.example/c:2"))},
    optional={
        "env": _ENV,
        "args": st.lists(_TEXTS, max_size=2),
        "resources": _RESOURCES,
        "ports": st.just([{"containerPort": 80}]),
        "volumeMounts": st.just([]),
        "tty": st.booleans(),
        "securityContext": st.just({}),
    },
)
_ANTI_AFFINITY = st.sampled_from(({}, {"matchLabels": {}}, {"matchLabels": {"a": "b"}})).map(
    lambda selector: {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": selector}]
        }
    }
)
POD_SPECS = st.fixed_dictionaries(
    {"containers": st.lists(_CONTAINER, min_size=1, max_size=1)},
    optional={
        "initContainers": st.lists(_CONTAINER.map(lambda each: {**each, "name": "i"}), max_size=1),
        "nodeSelector": _MAPS,
        "affinity": st.one_of(st.just({}), _ANTI_AFFINITY),
        "volumes": st.just([{"name": "v", "emptyDir": {}}]),
        "hostNetwork": st.booleans(),
        "priorityClassName": _TEXTS,
        "tolerations": st.lists(st.just({"operator": "Exists"}), max_size=1),
        "schedulingGates": st.just([{"name": "example.com/mine"}]),
        "hostname": st.just("mine"),
        "securityContext": st.just({}),
    },
)


@st.composite
def sets(draw: st.DrawFn) -> JSONObject:
    """Any set that is accepted if its names allow it."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    grouped = draw(st.lists(st.sampled_from(names), unique=True))
    group_names = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    groups = []
    for name, members in zip(group_names, (grouped[:1], grouped[1:]), strict=True):
        if members:
            least = draw(st.integers(1, 2))
            groups.append(group(name, *members, minAvailable=least, replicas=least + draw(st.integers(0, 2))))
    cliques = []
    for name in names:
        more: JSONObject = {}
        if draw(st.booleans()):
            more = {"labels": draw(_MAPS), "annotations": draw(_MAPS)}
        replicas = draw(st.integers(1, 3))
        if draw(st.booleans()):
            more["minAvailable"] = draw(st.integers(1, replicas))
        cliques.append(clique(name, replicas, pod_spec=draw(POD_SPECS), **more))
    startup = draw(st.sampled_from(("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder")))
    body = a_set(*cliques, replicas=draw(st.integers(0, 3)), groups=groups, cliqueStartupType=startup)
    if draw(st.booleans()):
        body["spec"]["template"]["priorityClassName"] = draw(_TEXTS)
    return body
