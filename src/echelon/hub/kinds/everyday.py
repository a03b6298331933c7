"""The habits of kinds that applications bring along and no controller of the hub reads: ingresses, budgets, classes.

They are kept, defaulted and checked as Kubernetes does it, so that what is refused there is refused here.
"""

import ipaddress
import re
from collections.abc import Iterator

from echelon.api.base import JSON, JSONObject
from echelon.api.networking import PATH_TYPES
from echelon.hub.access.identity import User
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.strategy import Strategy, immutable
from echelon.hub.schema import causes
from echelon.kube.errors import Cause

_SYSTEM_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PERCENT = re.compile(r"[0-9]+%")

# Minute, hour, day of month, month, day of week.
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    (),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
)
_MACROS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_EVERY = re.compile(r"@every ([0-9.]+(h|m|s|ms|us|ns))+")
_STEPS = re.compile(r"(?P<what>\*|\?|[0-9a-z]+(-[0-9a-z]+)?)(/(?P<step>[0-9]+))?", re.IGNORECASE)


def _fill_policy(obj: JSONObject) -> None:
    """Say which directions a policy is about that does not say so itself."""
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _check_network_policy(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    return [
        cause
        for rules, side in (("ingress", "from"), ("egress", "to"))
        for i, rule in enumerate(spec.get(rules) or ())
        for j, peer in enumerate(rule.get(side) or ())
        for cause in _check_peer(peer, f"spec.{rules}[{i}].{side}[{j}]")
    ]


def _check_peer(peer: JSONObject, path: str) -> Iterator[Cause]:
    block = peer.get("ipBlock")
    if not peer:
        yield causes.required(path, "must specify a peer")
    elif block is not None and len(peer) > 1:
        yield causes.forbidden(path, "may not specify both ipBlock and another peer")
    elif block is not None and not _is_network(block.get("cidr") or ""):
        yield causes.invalid(f"{path}.ipBlock.cidr", block.get("cidr") or "", "must be a valid CIDR value")


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _check_ingress(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    rules, default = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and default is None:
        return [causes.invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")]
    found = list(_check_backend(default, "spec.defaultBackend")) if default is not None else []
    for i, rule in enumerate(rules):
        for j, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            found += _check_path(path, f"spec.rules[{i}].http.paths[{j}]")
    return found


def _check_path(path: JSONObject, where: str) -> Iterator[Cause]:
    kind, text = path.get("pathType"), path.get("path") or ""
    if not kind:
        yield causes.required(f"{where}.pathType", "pathType must be specified")
    elif kind not in PATH_TYPES:
        yield causes.not_supported(f"{where}.pathType", kind, sorted(PATH_TYPES))
    elif (text or kind != "ImplementationSpecific") and not text.startswith("/"):
        yield causes.invalid(f"{where}.path", text, "must be an absolute path")
    yield from _check_backend(path.get("backend") or {}, f"{where}.backend")


def _check_backend(backend: JSONObject, where: str) -> Iterator[Cause]:
    service = backend.get("service")
    if service is None:
        if backend.get("resource") is None:
            yield causes.required(where, "backend must be specified")
        return
    if backend.get("resource") is not None:
        yield causes.invalid(where, "", "cannot set both resource and service backends")
    if not service.get("name"):
        yield causes.required(f"{where}.service.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        yield causes.invalid(where, "", "cannot set both port name & port number")
    elif not port.get("name") and not port.get("number"):
        yield causes.required(where, "port name or number is required")


def _check_budget(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        return [causes.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
    return [
        causes.invalid(f"spec.{name}", spec[name], _WRONG_LIMIT)
        for name in ("minAvailable", "maxUnavailable")
        if spec.get(name) is not None and not _is_limit(spec[name])
    ]


_WRONG_LIMIT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%'), and a number must be 0 or more"
)


def _is_limit(value: JSON) -> bool:
    if isinstance(value, int):
        return value >= 0
    return bool(_PERCENT.fullmatch(str(value))) and int(str(value)[:-1]) <= 100


def _check_storage_class(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    found = [] if new.get("provisioner") else [causes.required("provisioner")]
    for name, allowed in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if new.get(name) not in (None, *allowed):
            found.append(causes.not_supported(name, new[name], allowed))
    if old is not None and new.get("parameters") != old.get("parameters"):
        found.append(causes.forbidden("parameters", "updates to parameters are forbidden."))
    if old is not None and new.get("provisioner") != old.get("provisioner"):
        found.append(causes.forbidden("provisioner", "updates to provisioner are forbidden."))
    return found + immutable(new, old, "reclaimPolicy") + immutable(new, old, "volumeBindingMode")


def _check_priority_class(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    name, value = new["metadata"]["name"], new.get("value") or 0
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value:
            why = "priority class names with 'system-' prefix are reserved for system use only"
            return [causes.forbidden("metadata.name", why)]
    elif value > _SYSTEM_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_SYSTEM_PRIORITY}"
        return [causes.forbidden("value", why)]
    policy = new.get("preemptionPolicy")
    allowed = ("Never", "PreemptLowerPriority")
    if policy not in (None, *allowed):
        return [causes.not_supported("preemptionPolicy", policy, allowed)]
    if old is not None and value != (old.get("value") or 0):
        return [causes.forbidden("value", "may not be changed in an update.")]
    return immutable(new, old, "preemptionPolicy")


def _check_cron_job(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    schedule = spec.get("schedule") or ""
    found: list[Cause] = []
    if not schedule:
        found.append(causes.required("spec.schedule"))
    elif why := _wrong_schedule(schedule):
        found.append(causes.invalid("spec.schedule", schedule, why))
    pod_spec = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template", {}).get("spec") or {}
    if not pod_spec.get("containers"):
        found.append(causes.required("spec.jobTemplate.spec.template.spec.containers"))
    elif pod_spec.get("restartPolicy") not in ("OnFailure", "Never"):
        why = 'valid values: "OnFailure", "Never"'
        found.append(causes.required("spec.jobTemplate.spec.template.spec.restartPolicy", why))
    return found


def _wrong_schedule(schedule: str) -> str:
    """Return what is wrong with a schedule; nothing if nothing is."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule in _MACROS or _EVERY.fullmatch(schedule):
        return ""
    if schedule.startswith("@"):
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_RANGES):
        return f"expected exactly {len(_RANGES)} fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high), names in zip(fields, _RANGES, _NAMES, strict=True):
        for part in text.split(","):
            if why := _wrong_part(part, low, high, names):
                return why
    return ""


def _wrong_part(part: str, low: int, high: int, names: tuple[str, ...]) -> str:
    found = _STEPS.fullmatch(part)
    if found is None:
        return f"failed to parse {causes.quoted(part)}"
    if found["step"] is not None and not int(found["step"]):
        return f"step of range should be a positive number: {part}"
    if found["what"] in ("*", "?"):
        return ""
    ends = [_number(each, low, names) for each in found["what"].split("-")]
    if any(each is None for each in ends):
        return f"failed to parse int from {found['what']}"
    first, last = ends[0] or 0, ends[-1] or 0
    if first < low:
        return f"beginning of range ({first}) below minimum ({low}): {part}"
    if last > high:
        return f"end of range ({last}) above maximum ({high}): {part}"
    return f"beginning of range ({first}) beyond end of range ({last}): {part}" if first > last else ""


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    if text.lower() in names:
        return low + names.index(text.lower())
    return int(text) if text.isdigit() else None


def _create_policy(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    _fill_policy(obj)


def _update_policy(_cluster: LogicalCluster, obj: JSONObject, _old: JSONObject, _user: User) -> None:
    _fill_policy(obj)


STRATEGIES: dict[str, Strategy] = {
    "ingresses.networking.k8s.io": Strategy(
        counts_generations=True, first_status={"loadBalancer": {}}, validate=_check_ingress
    ),
    "ingressclasses.networking.k8s.io": Strategy(counts_generations=True),
    "networkpolicies.networking.k8s.io": Strategy(
        counts_generations=True,
        prepare_create=_create_policy,
        prepare_update=_update_policy,
        validate=_check_network_policy,
    ),
    "poddisruptionbudgets.policy": Strategy(
        counts_generations=True,
        unconditional_update=False,
        first_status=dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
        validate=_check_budget,
    ),
    "storageclasses.storage.k8s.io": Strategy(validate=_check_storage_class),
    "priorityclasses.scheduling.k8s.io": Strategy(counts_generations=True, validate=_check_priority_class),
    "cronjobs.batch": Strategy(counts_generations=True, first_status={}, validate=_check_cron_job),
}
