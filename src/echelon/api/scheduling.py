"""How clusters are chosen: who is eligible, who is preferred, who is kept away.

People write these by hand, so everything that can be mistyped is refused: the name of a prioritizer, an operator, a
value that an operator would ignore. Programs write every field of their structs, so an empty block, an empty word or a
zero is not a mistake, and an empty word means its default.
"""

from typing import Annotated, ClassVar

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.cluster import QUALIFIED_NAME, TAINT_EFFECTS
from echelon.api.meta import LabelSelector, LabelSelectorRequirement

BUILT_IN_PRIORITIZERS = (
    "Balance",
    "Steady",
    "ResourceAllocatableCPU",
    "ResourceAllocatableMemory",
    "PreferNoSelect",
    "Spread",
)


class ClusterClaimSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters by their claims; all terms must hold."""

    match_expressions: Annotated[
        list[LabelSelectorRequirement], field("Terms about claims: the key is a claim's name.", atomic=True)
    ] = []


class ClusterCelSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters by expressions over the whole ManagedCluster; all must be true."""

    cel_expressions: Annotated[
        list[str], field("CEL expressions over `managedCluster`, each giving true or false.", atomic=True)
    ] = []


class ClusterSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters by label, claim and expression together."""

    label_selector: Annotated[LabelSelector, field("Selects by the labels of the cluster.")] = LabelSelector()
    claim_selector: Annotated[ClusterClaimSelector, field("Selects by what the cluster claims about itself.")] = (
        ClusterClaimSelector()
    )
    cel_selector: Annotated[ClusterCelSelector, field("Selects by expressions over the cluster.")] = (
        ClusterCelSelector()
    )


class ClusterPredicate(APIStruct, frozen=True, gc=False, kw_only=True):
    """One of several ways to be eligible."""

    required_cluster_selector: Annotated[
        ClusterSelector, field("What a cluster must match to be eligible by this predicate.")
    ] = ClusterSelector()


class AddOnScore(APIStruct, frozen=True, gc=False, kw_only=True):
    """Points at a score that an add-on gives."""

    resource_name: Annotated[str, field("Name of the AddOnPlacementScore in each cluster's namespace.")]
    score_name: Annotated[str, field("Name of the score in it.")]


class ScoreCoordinate(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says where a score comes from."""

    type: Annotated[
        str,
        field(
            "BuiltIn for a prioritizer of the scheduler, AddOn for a score that an add-on gives.",
            default="BuiltIn",
            enum=("BuiltIn", "AddOn"),
        ),
    ] = "BuiltIn"
    built_in: Annotated[
        str, field("The built-in prioritizer, for type BuiltIn.", enum=("", *BUILT_IN_PRIORITIZERS))
    ] = ""
    add_on: Annotated[AddOnScore | None, field("The add-on's score, for type AddOn.")] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.type != 'BuiltIn' || (has(self.builtIn) && self.builtIn != '')",
                "type BuiltIn needs the name of a prioritizer",
                ".builtIn",
            ),
            Rule(
                "self.type != 'AddOn' || has(self.addOn)",
                "type AddOn needs the resource and the score that the add-on gives",
                ".addOn",
            ),
        ]
    }


class PrioritizerConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """A score, and how much it counts."""

    score_coordinate: Annotated[ScoreCoordinate, field("Where the score comes from.")]
    weight: Annotated[
        int,
        field(
            "Factor of the score; zero switches it off, less than zero prefers low scores.",
            default=1,
            format="int32",
            minimum=-10,
            maximum=10,
        ),
    ] = 1


class PrioritizerPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which scores decide when there are more eligible clusters than wanted."""

    mode: Annotated[
        str,
        field(
            "Additive keeps the default scores beside the configured ones, Exact uses only those configured.",
            default="Additive",
            enum=("Additive", "Exact", ""),
        ),
    ] = "Additive"
    configurations: Annotated[
        list[PrioritizerConfig], field("Scores and their weights.", max_items=1024, atomic=True)
    ] = []


class SpreadConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """Keeps the selected clusters spread over the values of a label or claim."""

    topology_key: Annotated[
        str, field("Label or claim whose values are the places to spread over.", pattern=QUALIFIED_NAME, max_length=316)
    ]
    topology_key_type: Annotated[str, field("Whether the key is a Label or a Claim.", enum=("Label", "Claim"))]
    max_skew: Annotated[
        int,
        field("By how many clusters the fullest place may exceed the emptiest.", default=1, format="int32", minimum=1),
    ] = 1
    when_unsatisfiable: Annotated[
        str,
        field(
            "What to do with a cluster that would break it: leave it out, or only prefer others.",
            default="ScheduleAnyway",
            enum=("DoNotSchedule", "ScheduleAnyway"),
        ),
    ] = "ScheduleAnyway"


class SpreadPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How the selected clusters are spread; earlier constraints weigh more."""

    spread_constraints: Annotated[
        list[SpreadConstraint], field("Constraints, the most important first.", max_items=8, atomic=True)
    ] = []


class Toleration(APIStruct, frozen=True, gc=False, kw_only=True):
    """Lets a placement select clusters in spite of a taint."""

    key: Annotated[
        str, field("Key of the taint; absent, with operator Exists, means any.", pattern=QUALIFIED_NAME, max_length=316)
    ] = ""
    operator: Annotated[
        str,
        field("Equal compares the value, Exists takes any value.", default="Equal", enum=("Equal", "Exists", "")),
    ] = "Equal"
    value: Annotated[str, field("Value of the taint, for operator Equal.", max_length=1024)] = ""
    effect: Annotated[str, field("Effect of the taint; absent means any.", enum=TAINT_EFFECTS)] = ""
    toleration_seconds: Annotated[
        int | None,
        field("For how long after the taint was added it is tolerated; absent means for ever.", format="int64"),
    ] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.operator != 'Exists' || !has(self.value) || self.value == ''",
                "operator Exists takes any value: leave value out, or use Equal",
                ".value",
            ),
            Rule(
                "has(self.key) || self.operator == 'Exists'", "without a key the operator must be Exists", ".operator"
            ),
        ]
    }
