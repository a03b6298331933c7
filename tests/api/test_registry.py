import importlib
import pkgutil
from typing import Any

import pytest

import echelon.api
from echelon.api import jsonpath, multicluster, registry
from echelon.api.kinds import Kind
from echelon.api.meta import LabelSelector
from echelon.api.registry import DuplicateNameError, collect
from echelon.api.schema import schema_of


def kind(plural: str, version: str = "v1", **more: Any) -> Kind[LabelSelector]:
    name = plural.removesuffix("s").capitalize()
    return Kind(**{"group": "example.com", "kind": name, **more}, version=version, plural=plural, type=LabelSelector)


def test_kinds_are_found_by_what_objects_name() -> None:
    widget, core = kind("widgets"), kind("pods", group="", builtin=True)
    found = collect([widget, core])
    assert found.by_gvk("example.com", "v1", "Widget") is widget
    assert found.by_gvk("", "v1", "Pod") is core
    assert found.by_gvk("example.com", "v2", "Widget") is None
    assert found.custom_kinds() == (widget,)


def test_crds_are_sorted_and_one_a_resource() -> None:
    found = collect(
        [kind("widgets", "v1beta1"), kind("gadgets"), kind("widgets"), kind("pods", group="", builtin=True)]
    )
    assert [crd["metadata"]["name"] for crd in found.crds()] == ["gadgets.example.com", "widgets.example.com"]
    assert [version["name"] for version in found.crds()[1]["spec"]["versions"]] == ["v1beta1", "v1"]
    assert [version["storage"] for version in found.crds()[1]["spec"]["versions"]] == [False, True]


def test_a_resource_is_registered_once() -> None:
    with pytest.raises(DuplicateNameError, match=r"example\.com/v1/widgets is claimed by"):
        collect([kind("widgets"), kind("widgets", kind="Other")])
    with pytest.raises(DuplicateNameError, match=r"example\.com/v1/Widget is claimed by"):
        collect([kind("widgets"), kind("others", kind="Widget")])


def test_custom_kinds_do_not_share_a_short_name() -> None:
    with pytest.raises(DuplicateNameError, match="short name w is claimed by widgets"):
        collect([kind("widgets", short_names=("w",)), kind("watches", short_names=("w",))])


def test_versions_of_a_resource_share_their_short_names() -> None:
    both = [kind("widgets", "v1beta1", short_names=("w",)), kind("widgets", short_names=("w",))]
    assert len(collect(both).custom_kinds()) == 2


def test_every_kind_that_a_module_defines_is_registered_but_for_those_that_are_installed_on_request() -> None:
    defined: list[Any] = []
    for module in pkgutil.iter_modules(echelon.api.__path__, "echelon.api."):
        defined += getattr(importlib.import_module(module.name), "KINDS", ())
    assert defined
    missing = [found for found in defined if found not in registry.registry().kinds]
    assert missing == list(multicluster.KINDS)


ALL = [pytest.param(found, id=f"{found.resource}/{found.version}") for found in registry.registry().kinds]


@pytest.mark.parametrize("found", ALL)
def test_every_registered_kind_is_found_and_has_a_schema(found: Kind[Any]) -> None:
    assert registry.by_gvk(found.group, found.version, found.kind) is found
    assert schema_of(found.type, metadata="full")["type"] == "object"


@pytest.mark.parametrize("found", ALL)
def test_every_path_of_a_registered_kind_leads_somewhere(found: Kind[Any]) -> None:
    for column in found.columns:
        assert bool(column.path) != bool(column.cell), f"{column.name} needs a path or a cell"
        if column.path:
            jsonpath.compile(column.path)
    scale = (found.scale.spec_replicas, found.scale.status_replicas) if found.scale else ()
    for path in (*scale, *(f".{name}" for name in found.selectable_fields)):
        assert jsonpath.compile(path).simple
