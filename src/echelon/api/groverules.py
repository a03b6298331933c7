"""What Grove's admission webhook checks, as rules that any API server can evaluate.

Grove itself checks with Go code. A CRD must say it in CEL, within the cost that Kubernetes allows to a rule, and the
cost is estimated from the largest object that the schema permits; hence the limits on lists and names below, which are
far above what a gang of pods can use. A cycle in the startup order is not among the rules: CEL has no recursion.
"""

from echelon.api.base import Rule

MAX_CLIQUES = 64
MAX_GROUPS = 32
NAME_BUDGET = 45  # set, group and clique name together, so that pod names stay legal
# More than these is a slip of a finger, which costs a clear word here and a cluster's afternoon elsewhere.
MOST_POD_CLIQUES = 5000  # of one set
MOST_GROUP_REPLICAS = 2000
MOST_PODS = 50_000  # of one clique

_INVALID, _FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"
_GROUPS = "self.podCliqueScalingGroups"


def _scheduler(clique: str) -> str:
    pods = f"{clique}.spec.podSpec"
    return f"(has({pods}.schedulerName) ? {pods}.schedulerName : 'default-scheduler')"


def _unchanged(path: str) -> str:
    """Return the condition that an optional field, given by its path, is what it was; absent is a value too."""
    owner, _, name = path.rpartition(".")
    new, old = (f"{side}.{owner}" if owner else side for side in ("self", "oldSelf"))
    return f"has({new}.{name}) == has({old}.{name}) && (!has({new}.{name}) || {new}.{name} == {old}.{name})"


def immutable(path: str) -> Rule:
    """Return the rule that a field never changes."""
    return Rule(_unchanged(path), "field is immutable", f".{path}", _FORBIDDEN)


# The set as a whole, where its name is known.
SET_NAMES = (
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "the Services of a set are named after it: its name must be letters, digits and dashes and begin with a letter",
        ".metadata",
        _INVALID,
    ),
    Rule(
        f"self.spec.template.cliques.all(c, size(self.metadata.name) + size(c.name) <= {NAME_BUDGET})",
        f"the names of the set and of a clique may have {NAME_BUDGET} characters together",
        ".spec.template.cliques",
        _INVALID,
    ),
    Rule(
        "!has(self.spec.template.podCliqueScalingGroups) || self.spec.template.podCliqueScalingGroups.all(g, "
        f"g.cliqueNames.all(n, size(self.metadata.name) + size(g.name) + size(n) <= {NAME_BUDGET}))",
        f"the names of the set, a scaling group and its clique may have {NAME_BUDGET} characters together",
        ".spec.template.podCliqueScalingGroups",
        _INVALID,
    ),
)

SET_SIZE = (
    Rule(
        f"self.replicas * size(self.template.cliques) <= {MOST_POD_CLIQUES}",
        f"a set may have {MOST_POD_CLIQUES} PodCliques, and each replica has one of every clique at least",
        ".replicas",
        _INVALID,
    ),
)

TEMPLATE = (
    Rule(
        "self.cliques.all(a, self.cliques.exists_one(b, b.spec.roleName == a.spec.roleName))",
        "role names must be unique",
        ".cliques",
        _INVALID,
    ),
    Rule(
        f"self.cliques.all(c, {_scheduler('c')} == {_scheduler('self.cliques[0]')})",
        "all cliques must use the same scheduler",
        ".cliques",
        _INVALID,
    ),
    Rule(
        "self.cliqueStartupType != 'CliqueStartupTypeExplicit' || self.cliques.all(c, !has(c.spec.startsAfter) || "
        "c.spec.startsAfter.all(p, p != c.name && self.cliques.exists(o, o.name == p)))",
        "startsAfter must name other cliques of the set",
        ".cliques",
        _INVALID,
    ),
    Rule(
        f"!has({_GROUPS}) || {_GROUPS}.all(g, g.cliqueNames.all(n, self.cliques.exists(c, c.name == n)))",
        "a scaling group must name cliques of the set",
        ".podCliqueScalingGroups",
        _INVALID,
    ),
    Rule(
        f"!has({_GROUPS}) || self.cliques.all(c, {_GROUPS}.filter(g, c.name in g.cliqueNames).size() <= 1)",
        "a clique may be in one scaling group only",
        ".podCliqueScalingGroups",
        _INVALID,
    ),
    Rule(
        f"!has({_GROUPS}) || self.cliques.all(c, !(has(c.spec.autoScalingConfig) || has(c.rollingUpdate)) || "
        f"!{_GROUPS}.exists(g, c.name in g.cliqueNames))",
        "a clique of a scaling group may have neither autoScalingConfig nor rollingUpdate: the group has them",
        ".cliques",
        _FORBIDDEN,
    ),
    Rule(
        "size(self.cliques) == size(oldSelf.cliques) && "
        "self.cliques.all(c, oldSelf.cliques.exists(o, o.name == c.name))",
        "cliques may be neither added nor removed",
        ".cliques",
        _FORBIDDEN,
    ),
    Rule(
        "self.cliqueStartupType == 'CliqueStartupTypeAnyOrder' || "
        "self.cliques.map(c, c.name) == oldSelf.cliques.map(c, c.name)",
        "the order of cliques may not change when they start in order",
        ".cliques",
        _FORBIDDEN,
    ),
    Rule(
        f"has({_GROUPS}) == has(oldSelf.podCliqueScalingGroups) && (!has({_GROUPS}) || "
        f"(size({_GROUPS}) == size(oldSelf.podCliqueScalingGroups) && "
        f"{_GROUPS}.all(g, oldSelf.podCliqueScalingGroups.exists(o, o.name == g.name))))",
        "scaling groups may be neither added nor removed",
        ".podCliqueScalingGroups",
        _FORBIDDEN,
    ),
    Rule("self.cliqueStartupType == oldSelf.cliqueStartupType", "field is immutable", ".cliqueStartupType", _FORBIDDEN),
    immutable("topologyConstraint"),
    immutable("resourceSharing"),
    immutable("resourceClaimTemplates"),
)

CLIQUE = (
    Rule("self.spec.replicas > 0", "must be greater than 0", ".spec.replicas", _INVALID),
    Rule(
        "!has(self.spec.minAvailable) || (self.spec.minAvailable > 0 && self.spec.minAvailable <= self.spec.replicas)",
        "must be greater than 0 and not greater than replicas",
        ".spec.minAvailable",
        _INVALID,
    ),
    Rule(
        "!has(self.spec.autoScalingConfig) || self.spec.autoScalingConfig.maxReplicas >= self.spec.replicas",
        "maxReplicas must not be less than replicas",
        ".spec.autoScalingConfig.maxReplicas",
        _INVALID,
    ),
    Rule(
        "!has(self.spec.autoScalingConfig) || !has(self.spec.autoScalingConfig.minReplicas) || "
        "self.spec.autoScalingConfig.minReplicas >= self.spec.?minAvailable.orValue(self.spec.replicas)",
        "minReplicas must not be less than minAvailable",
        ".spec.autoScalingConfig.minReplicas",
        _INVALID,
    ),
    Rule("!has(self.spec.podSpec.nodeName)", "may not be set", ".spec.podSpec.nodeName", _FORBIDDEN),
    Rule(
        "!has(self.spec.podSpec.topologySpreadConstraints)",
        "may not be set",
        ".spec.podSpec.topologySpreadConstraints",
        _FORBIDDEN,
    ),
    Rule("self.spec.roleName == oldSelf.spec.roleName", "field is immutable", ".spec.roleName", _FORBIDDEN),
    immutable("spec.minAvailable"),
    immutable("spec.startsAfter"),
    immutable("spec.podSpec.schedulerName"),
    immutable("topologyConstraint"),
    immutable("resourceSharing"),
)

SCALING = (
    Rule(
        "!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
        "must not be less than minReplicas",
        ".maxReplicas",
        _INVALID,
    ),
)

SCALING_GROUP = (
    Rule("self.minAvailable <= self.replicas", "must not be greater than replicas", ".minAvailable", _INVALID),
    Rule(
        "!has(self.scaleConfig) || !has(self.scaleConfig.minReplicas) || "
        "self.scaleConfig.minReplicas >= self.minAvailable",
        "minReplicas must not be less than minAvailable",
        ".scaleConfig.minReplicas",
        _INVALID,
    ),
    Rule(
        "!has(self.scaleConfig) || has(self.scaleConfig.minReplicas) || self.scaleConfig.maxReplicas >= self.replicas",
        "maxReplicas must not be less than minReplicas, which is replicas if it is not given",
        ".scaleConfig.maxReplicas",
        _INVALID,
    ),
    Rule("self.cliqueNames == oldSelf.cliqueNames", "field is immutable", ".cliqueNames", _FORBIDDEN),
    Rule("self.minAvailable == oldSelf.minAvailable", "field is immutable", ".minAvailable", _FORBIDDEN),
    immutable("topologyConstraint"),
    immutable("resourceSharing"),
)

TOPOLOGY = (
    Rule("has(self.pack) || has(self.packDomain)", "pack is required", ".pack", "FieldValueRequired"),
    Rule(
        "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
        "pack.required and the older packDomain may not both be set",
        ".pack.required",
        _INVALID,
    ),
)
PACK = (
    Rule("has(self.required) || has(self.preferred)", "required or preferred must be set", "", "FieldValueRequired"),
)
POSITIVE_DURATION = (Rule("duration(self) > duration('0s')", "must be greater than 0", "", _INVALID),)
