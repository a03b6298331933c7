"""Which set a work is of, and what its name is."""

import pytest

from echelon.engine.work_set.names import BadSetName, label_of, set_of, work_name


@pytest.mark.parametrize(("namespace", "name"), [("apps", "web"), ("apps", "web.v1.example")])
def test_the_label_of_a_set_leads_back_to_it(namespace: str, name: str) -> None:
    assert set_of(label_of(namespace, name)) == (namespace, name)


@pytest.mark.parametrize("label", ["", "web", ".web", "apps."])
def test_a_label_that_names_no_set_leads_nowhere(label: str) -> None:
    assert set_of(label) is None


def test_a_label_has_at_most_63_characters() -> None:
    assert label_of("n" * 30, "w" * 32)
    with pytest.raises(BadSetName, match="63"):
        label_of("n" * 30, "w" * 33)


def test_two_sets_of_one_name_have_works_of_two_names_where_one_is_taken() -> None:
    assert work_name("apps", "web", name_conflict=False) == "web"
    others = {work_name(namespace, "web", name_conflict=True) for namespace in ("apps", "other")}
    assert len(others | {"web"}) == 3
