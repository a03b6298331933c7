"""Objects as people and servers write them, for Hypothesis."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "name"])
SCALARS = st.one_of(
    st.sampled_from(["x", "y", "", "1", "1000m", "0.5", "500m", "true", "1Gi", "1024Mi"]),
    st.integers(0, 2),
    st.booleans(),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
MAPS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAMES, VALUES, max_size=4)


def shuffled(value: Any, draw: Any) -> Any:
    """Return a value with every list in another order."""
    if isinstance(value, dict):
        return {key: shuffled(inner, draw) for key, inner in value.items()}
    if isinstance(value, list):
        return draw(st.permutations([shuffled(inner, draw) for inner in value]))
    return value
