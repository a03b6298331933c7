"""The caches of templates: one for each kind of workload that can be sent to clusters.

A template is sent with whatever a newer client put into it, so it is kept as the plain document that it is. Bindings
that are made from policies are named after their template, `web-deployment`, and no kind has a dash: so that name alone
says where the template is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.karmada import ObjectReference
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.controllers.context import ControllerContext
from echelon.engine.workload.names import binding_name
from echelon.kube.cache import key_of
from echelon.kube.informer import Informer

PROPAGATED_KINDS: tuple[Kind[Any], ...] = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)  # that policies can select
KINDS: tuple[Kind[Any], ...] = (*PROPAGATED_KINDS, JOB)
CLONE_SET_V1BETA1: Kind[Any] = replace(CLONE_SET, version="v1beta1")
# Both versions are of the same objects: the first that the hub serves is enough.
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (CLONE_SET, CLONE_SET_V1BETA1)


@dataclass(frozen=True)
class TemplateCaches:
    """The templates of all kinds that the hub serves."""

    informers: Mapping[tuple[str, str], Informer[JSONObject]]  # by API version and kind

    @classmethod
    def of(cls, context: ControllerContext, kinds: Iterable[Kind[Any]] = KINDS) -> "TemplateCaches":
        """Return the caches, which all controllers of a process share."""
        served = (*kinds, *[each for each in OPTIONAL_KINDS if context.serves(each)][:1])
        return cls({(each.api_version, each.kind): context.informer(each.untyped()) for each in served})

    def kind_of(self, reference: ObjectReference) -> Kind[Any] | None:
        """Return the kind of a template; None if it is none that is known here."""
        informer = self.informers.get((reference.api_version, reference.kind))
        return informer.kind if informer is not None else None

    def reached(self, reference: ObjectReference) -> str:
        """Return up to which version templates of a kind are known."""
        informer = self.informers.get((reference.api_version, reference.kind))
        return informer.reached if informer is not None else ""

    def get(self, reference: ObjectReference) -> tuple[JSONObject | None, str]:
        """Return a template, and why nobody can tell whether there is one."""
        informer = self.informers.get((reference.api_version, reference.kind))
        if informer is None:
            known = ", ".join(sorted(kind for _, kind in self.informers))
            return None, (
                f"spec.resource: {reference.kind} of {reference.api_version} is no kind of template that is sent to"
                f" clusters here; there are {known}"
            )
        key = Key(reference.namespace, reference.name)
        if (misfit := informer.unreadable.get(key)) is not None:
            return None, f"{reference.kind} {key} cannot be read: {misfit.why}"
        return informer.get(key), ""

    def find(self, binding: Key) -> tuple[Kind[Any], JSONObject] | None:
        """Return the template whose binding has this key, if there is one."""
        name, _, kind = binding.name.rpartition("-")
        for informer in self.informers.values():
            if informer.kind.singular == kind:
                template = informer.get(Key(binding.namespace, name))
                return (informer.kind, template) if template is not None else None
        return None


def binding_of(template: JSONObject) -> Key:
    """Return where the binding of a template is."""
    namespace, name = key_of(template)
    return Key(namespace, binding_name(name, template["kind"]))


def resource_of(reference: ObjectReference) -> tuple[str, str, str, str]:
    """Return by which a template is known, whatever its version."""
    return reference.api_version, reference.kind, reference.namespace, reference.name


def resources_of(template: JSONObject) -> Iterable[tuple[str, str, str, str]]:
    """Return the same of a template itself."""
    meta = template["metadata"]
    return ((template["apiVersion"], template["kind"], meta.get("namespace", ""), meta["name"]),)
