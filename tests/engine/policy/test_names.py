"""Which policy a replica is of is told from its name, at the first dot: a namespace has none, a name may have some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.keys import Key
from echelon.engine.policy.names import replica_name, root_of


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("foobar", None),
        ("foo.bar", Key("foo", "bar")),
        ("fo.ob.ar", Key("fo", "ob.ar")),
        (".bar", None),
        ("foo.", None),
    ],
)
def test_a_name_says_whose_replica_it_is(name: str, root: Key | None) -> None:
    assert root_of(name) == root


@given(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True))
def test_the_name_of_a_replica_leads_back_to_its_policy(namespace: str, name: str) -> None:
    assert root_of(replica_name(Key(namespace, name))) == Key(namespace, name)
