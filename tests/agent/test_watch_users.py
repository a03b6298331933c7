"""Who looks at an object is known for as long as it is watched for somebody, under whatever version."""

from typing import Any, cast

from echelon.agent.object_watches import ObjectRef, ObjectWatches
from echelon.agent.watch_users import WatchUsers
from echelon.api.kinds import Kind

V1 = Kind[Any]("apps", "v1", "Deployment", "deployments", dict[str, Any])
V2 = Kind[Any]("apps", "v2", "Deployment", "deployments", dict[str, Any])


class Watched:
    """Notes what is watched."""

    def __init__(self) -> None:
        self.refs: dict[object, tuple[ObjectRef, ...]] = {}

    def watch(self, owner: object, refs: tuple[ObjectRef, ...]) -> None:
        self.refs[owner] = refs


def test_who_looks_at_an_object_is_known_until_nobody_does() -> None:
    watched = Watched()
    users = WatchUsers(cast("ObjectWatches", watched), "Work")
    one, other, newer = (ObjectRef(V1, "shop", name) for name in ("a", "b", "c"))
    twice = ObjectRef(V2, "shop", "a")
    assert users.watch("w2", (one, one, other, twice)) == ()
    users.watch("w1", (one,))
    assert users.of(one.key) == ["w1", "w2"]
    assert watched.refs["Work", "w2"] == users.refs("w2") == (one, other, twice)
    assert users.watch("w2", (newer,)) == (one, other, twice)
    assert (users.of(one.key), users.of(other.key), users.of(newer.key)) == (["w1"], [], ["w2"])
    users.watch("w1", ())
    assert users.of(one.key) == []
    assert watched.refs["Work", "w1"] == users.refs("w1") == ()


def test_an_object_that_is_watched_under_two_versions_can_be_let_go() -> None:
    users = WatchUsers(cast("ObjectWatches", Watched()), "Work")
    versions = ObjectRef(V1, "shop", "a"), ObjectRef(V2, "shop", "a")
    users.watch("w", versions)
    assert users.watch("w", ()) == versions
    assert users.of(versions[0].key) == []
