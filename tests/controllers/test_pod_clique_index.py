"""The index of pods by clique: counted anew when something changed, kept when nothing did, and equal to the caches."""

from collections.abc import Iterable
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE
from echelon.api.keys import Key
from echelon.controllers.pod_clique.clique_index import CliqueIndex
from echelon.engine.pod_clique.view import read_clique
from echelon.kube.informer import Delta

CLIQUE: JSONObject = {
    "metadata": {
        "name": "w-0-front",
        "namespace": "apps",
        "uid": "c1",
        "resourceVersion": "5",
        "labels": {"app.kubernetes.io/part-of": "w"},
    },
    "spec": {"roleName": "front", "replicas": 2, "podSpec": {"containers": [{"name": "main", "image": "v1"}]}},
}
SET = Key("apps", "w")


class Cached:
    """A cache that holds what it is given."""

    def __init__(self, *objects: JSONObject) -> None:
        self.objects = {Key("apps", each["metadata"]["name"]): each for each in objects}
        self.reached, self.went_back = "10", 0

    def get(self, key: Key) -> JSONObject | None:
        return self.objects.get(key)

    def values(self) -> Iterable[JSONObject]:
        return list(self.objects.values())

    def seen(self, _: Key) -> str:
        return self.reached


def pod(name: str, version: int, owner: str = "c1", *, ready: bool = True, **meta: Any) -> JSONObject:
    reference = {"kind": POD_CLIQUE.kind, "name": "w-0-front", "uid": owner, "controller": True}
    condition = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {
            "name": name,
            "namespace": "apps",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"app.kubernetes.io/part-of": "w"},
            "ownerReferences": [reference],
            **meta,
        },
        "spec": {"hostname": f"w-0-front-{name[-1]}"},
        "status": {"phase": "Running", "conditions": [condition]},
    }


class Index:
    """An index with its caches."""

    def __init__(self) -> None:
        self.cliques, self.pods = Cached(CLIQUE), Cached()
        self.index = CliqueIndex(self.cliques, self.pods)  # type: ignore[arg-type] # as much of an informer as it takes

    def put(self, obj: JSONObject, ours: Iterable[str] = ()) -> list[Key]:
        key = Key("apps", obj["metadata"]["name"])
        old, self.pods.objects[key] = self.pods.get(key), obj
        return self.index.pod_changed(Delta(old, obj), frozenset(ours))

    def drop(self, name: str, version: int) -> list[Key]:
        self.pods.reached = str(version)
        return self.index.pod_changed(Delta(self.pods.objects.pop(Key("apps", name)), None))

    def differences(self) -> list[str]:
        return [each for each in self.index.verify() if each is not None]


def test_a_clique_is_counted_anew_when_one_of_its_pods_has_changed_and_not_otherwise() -> None:
    here = Index()
    assert here.put(pod("a0", 6)) == [SET]
    first = here.index.view(CLIQUE)
    assert (first.tally.live, first.tally.ready) == (1, 1)
    assert here.index.view(CLIQUE) is first
    first.derived["what a plan found out"] = True
    assert here.put(pod("a1", 7, ready=False)) == [SET]
    second = here.index.view(CLIQUE)
    assert (second.tally.live, second.tally.ready) == (2, 1)
    assert second.derived == {}, "what was found out of other pods is not true of these"


def test_a_pod_that_gets_or_loses_its_node_wakes_its_set_though_nothing_else_has_changed() -> None:
    """Upstream 775: nobody looked, so conditions and gates stayed as they were."""
    here = Index()
    found = pod("a0", 6, ready=False)
    here.put(found)
    word = {"type": "PodScheduled", "status": "True"}
    placed = {**found, "status": {**found["status"], "conditions": [*found["status"]["conditions"], word]}}
    assert here.put({**placed, "metadata": {**placed["metadata"], "resourceVersion": "7"}}) == [SET]
    assert here.index.view(CLIQUE).tally.scheduled == 1
    assert here.put({**found, "metadata": {**found["metadata"], "resourceVersion": "8"}}) == [SET]


def test_a_write_that_changes_nothing_that_counts_wakes_nobody_and_its_version_is_known() -> None:
    here = Index()
    here.put(pod("a0", 6))
    here.index.view(CLIQUE)
    assert here.put(pod("a0", 9, annotations={"somebody": "else"})) == []
    assert here.index.view(CLIQUE).pods[0].version == "9"


def test_when_the_last_pod_went_is_known_by_its_deletion_and_by_its_end() -> None:
    here = Index()
    assert here.index.gone_at(SET) == "10", "what was not there when everything was listed is gone since then"
    here.put(pod("a0", 12))
    here.put(pod("a0", 14, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert here.index.gone_at(SET) == "14"
    here.put(pod("a1", 15))
    here.drop("a1", 20)
    assert here.index.gone_at(SET) == "20"


def test_a_pod_that_stops_serving_outdates_a_plan_unless_the_plan_deletes_it() -> None:
    here = Index()
    here.put(pod("a0", 11))
    here.put(pod("a1", 12))
    before = here.index.lost(SET)
    here.put(pod("a0", 13, deletionTimestamp="2026-01-01T00:00:00Z"), ours=["uid-a0"])
    assert here.index.lost(SET) == before
    here.put(pod("a1", 14, ready=False))
    assert here.index.lost(SET) == before + 1


def test_live_pods_of_an_earlier_clique_of_the_name_are_known() -> None:
    here = Index()
    here.put(pod("a0", 11, owner="before"))
    here.put(pod("a1", 12))
    cliques = [read_clique(CLIQUE)]
    assert here.index.has_leftovers("apps", cliques)
    here.put(pod("a0", 13, owner="before", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not here.index.has_leftovers("apps", cliques)


def test_what_a_handler_missed_is_found_and_repaired() -> None:
    here = Index()
    here.put(pod("a0", 11))
    here.put(pod("a1", 12))
    here.index.view(CLIQUE)
    assert here.differences() == []
    here.pods.objects[Key("apps", "a0")] = pod("a0", 15, ready=False)
    del here.pods.objects[Key("apps", "a1")]
    here.pods.objects[Key("apps", "a2")] = pod("a2", 16)
    assert here.differences() == [
        "pod apps/a0: version 11 of clique w-0-front instead of version 15 of clique w-0-front",
        "pod apps/a2: none instead of version 16 of clique w-0-front",
        "pod apps/a1: version 12 of clique w-0-front instead of none",
    ]
    assert here.differences() == []
    assert [each.name for each in here.index.view(CLIQUE).pods] == ["a0", "a2"]


def test_a_pod_that_is_nobodys_is_no_pod_of_a_clique() -> None:
    here = Index()
    assert here.put(pod("a0", 11, ownerReferences=[])) == []
    assert here.index.view(CLIQUE).tally.live == 0
    here.put(pod("a0", 12))
    assert here.put(pod("a0", 13, ownerReferences=[])) == [SET]
    assert here.index.view(CLIQUE).tally.live == 0


def test_pods_are_confirmed_once_they_are_those_that_the_server_has() -> None:
    here = Index()
    here.put(pod("a0", 11))
    assert not here.index.is_confirmed("c1")
    assert not here.index.confirm("c1", {"a0": "uid-a0", "a1": "uid-a1"}), "somebody made one that is not here yet"
    assert not here.index.is_confirmed("c1")
    here.put(pod("a1", 12))
    assert here.index.confirm("c1", {"a0": "uid-a0", "a1": "uid-a1"})
    assert here.index.is_confirmed("c1")
    here.pods.went_back += 1
    assert not here.index.is_confirmed("c1"), "the server has forgotten something"


def test_a_clique_of_which_only_the_status_is_new_keeps_its_pods_and_what_was_found_out_about_its_spec() -> None:
    here = Index()
    here.put(pod("a0", 11))
    before = here.index.view(CLIQUE)
    before.derived["patch"] = ("of this spec", None)
    told = {**CLIQUE, "metadata": {**CLIQUE["metadata"], "resourceVersion": "6"}, "status": {"replicas": 1}}
    after = here.index.view(told)
    assert (after.status.replicas, after.tally) == (1, before.tally)
    assert after.pods is before.pods
    assert after.derived == {"patch": ("of this spec", None)}
    here.put(pod("a1", 12))
    assert here.index.view(told).tally.live == 2
    edited = {**told, "spec": {**CLIQUE["spec"], "replicas": 3}}
    assert here.index.view(edited).derived == {}
    assert here.index.view(edited).tally.live == 2
