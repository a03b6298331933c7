"""The rollout strategy, and what a status says of the clusters: what work sets and policies have in common.

Upstream reads it from two sides that disagree: the schema lets through what the rollout library later refuses (quoted
numbers, durations with text behind them) or silently ignores (a block of another type than the chosen one). A rollout
that stops in the middle of a fleet is a bad place to learn of a typing error, so the schema here takes exactly what
can be carried out.
"""

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, Rule, field

ROLLOUT_TYPES = ("All", "Progressive", "ProgressivePerGroup")

# What a rollout can say of one cluster, wherever it says it.
ROLLOUT_STATUSES = ("ToApply", "Progressing", "Succeeded", "Failed", "TimeOut", "Skip")

# A percentage; a plain number must be a JSON number. The quoted number that upstream's schema takes fails later.
PERCENT = r"^(100|[0-9]{1,2})%$"

# Durations as Go writes and reads them, and never negative.
_GO_DURATION = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$"
_DEADLINE = r"^(([0-9]+(ms|s|m|h))+|None)$"

MinSuccessTime: TypeAlias = Annotated[
    str,
    field(
        "Soak: how long a cluster must have succeeded before its place goes to another. Not used by type All.",
        default="0",
        pattern=_GO_DURATION,
        max_length=64,
    ),
]

ProgressDeadline: TypeAlias = Annotated[
    str,
    field(
        "How long a cluster may be progressing or failed before it counts as timed out, such as 10m or 1h30m. "
        "None waits for ever.",
        default="None",
        pattern=_DEADLINE,
        max_length=64,
    ),
]

MaxFailures: TypeAlias = Annotated[
    IntOrString,
    field(
        "How many clusters may fail or time out before no further one is started: a number, or a percentage of the "
        "clusters (of the group, under ProgressivePerGroup). Not used by type All.",
        default=0,
        int_or_string=True,
        pattern=PERCENT,
        minimum=0,
    ),
]


class MandatoryDecisionGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """Names a decision group, or points at one by its index; the name wins."""

    group_name: Annotated[str, field("Name of the decision group; matches every group of that name.")] = ""
    group_index: Annotated[
        int, field("Index of the decision group; used when there is no name.", format="int32", minimum=0)
    ] = 0


MandatoryDecisionGroups: TypeAlias = Annotated[
    list[MandatoryDecisionGroup],
    field("Groups that go first, one after the other, and in which no failure is tolerated.", atomic=True),
]


class RolloutAll(APIStruct, frozen=True, gc=False, kw_only=True):
    """Settings of a rollout that starts everywhere at once."""

    min_success_time: MinSuccessTime = "0"
    progress_deadline: ProgressDeadline = "None"
    max_failures: MaxFailures = 0


class RolloutProgressive(APIStruct, frozen=True, gc=False, kw_only=True):
    """Settings of a rollout that keeps a limited number of clusters in flight."""

    min_success_time: MinSuccessTime = "0"
    progress_deadline: ProgressDeadline = "None"
    max_failures: MaxFailures = 0
    mandatory_decision_groups: MandatoryDecisionGroups = []
    max_concurrency: Annotated[
        IntOrString | None,
        field(
            "How many clusters may be in flight at once: a number, or a percentage of the clusters outside of the "
            "mandatory groups.",
            int_or_string=True,
            pattern=PERCENT,
            minimum=0,
        ),
    ] = None


class RolloutProgressivePerGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """Settings of a rollout that takes one decision group after the other."""

    min_success_time: MinSuccessTime = "0"
    progress_deadline: ProgressDeadline = "None"
    max_failures: MaxFailures = 0
    mandatory_decision_groups: MandatoryDecisionGroups = []


class RolloutStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """In which order, how many at a time, and up to how many failures a change reaches the clusters."""

    type: Annotated[
        str,
        field(
            "All changes every cluster at once, Progressive a limited number at a time, ProgressivePerGroup one "
            "decision group at a time.",
            default="All",
            enum=ROLLOUT_TYPES,
        ),
    ] = "All"
    all: Annotated[RolloutAll | None, field("Settings for type All.")] = None
    progressive: Annotated[RolloutProgressive | None, field("Settings for type Progressive.")] = None
    progressive_per_group: Annotated[
        RolloutProgressivePerGroup | None, field("Settings for type ProgressivePerGroup.")
    ] = None

    # A block that the type doesn't use may stay beside one that it does: a patch that changes the type leaves it
    # behind, and so does the default with its `all`. On its own it is a forgotten or wrong type.
    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.type != 'All' || !(has(self.progressive) || has(self.progressivePerGroup))",
                "type All does not use progressive or progressivePerGroup: set the type that the block is for",
                ".type",
            ),
            Rule(
                "self.type != 'Progressive' || has(self.progressive) || !has(self.progressivePerGroup)",
                "type Progressive does not use progressivePerGroup: give progressive, or change the type",
                ".type",
            ),
            Rule(
                "self.type != 'ProgressivePerGroup' || has(self.progressivePerGroup) || !has(self.progressive)",
                "type ProgressivePerGroup does not use progressive: give progressivePerGroup, or change the type",
                ".type",
            ),
        ]
    }


# What `status.rollout.clusters` lists at most. The status is written every second of a rollout, and the server handles
# the whole list each time.
MAX_LISTED_CLUSTERS = 100


class ClusterRollout(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far one cluster is."""

    cluster: Annotated[str, field("Name of the cluster.", max_length=253)]
    others: Annotated[str, field("Further clusters of which the same is true, separated by commas.")] = ""
    placement: Annotated[str, field("Placement through which the cluster has its work.")] = ""
    group: Annotated[str, field("Name of the cluster's decision group; empty for unnamed ones.")] = ""
    group_index: Annotated[int, field("Index of the cluster's decision group.", format="int32")] = msgspec.field(
        default_factory=int
    )
    status: Annotated[str, field("Where the cluster stands in the rollout.", enum=ROLLOUT_STATUSES)]
    reason: Annotated[str, field("Why, as one word for programs.", max_length=1024)] = ""
    message: Annotated[str, field("Why, as a sentence for people.", max_length=1024)] = ""
    last_transition_time: Annotated[str, field("When the status last changed.", format="date-time")] = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All clusters of which it is true."""
        return (self.cluster, *filter(None, self.others.split(", ")))


class RolloutSummary(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far the rollout of the current template is."""

    state: Annotated[
        str, field("Where the rollout stands, as one word: Complete, Progressing, or what holds it up.")
    ] = ""
    done: Annotated[str, field("Clusters that are done, and how many there are: 8/24.")] = ""
    to_apply: Annotated[int, field("Clusters that wait for their turn.")] = msgspec.field(default_factory=int)
    progressing: Annotated[int, field("Clusters that are changing.")] = msgspec.field(default_factory=int)
    succeeded: Annotated[int, field("Clusters that are done.")] = msgspec.field(default_factory=int)
    failed: Annotated[int, field("Clusters that failed and may still recover.")] = msgspec.field(default_factory=int)
    timed_out: Annotated[int, field("Clusters that missed their deadline.")] = msgspec.field(default_factory=int)
    skipped: Annotated[int, field("Clusters that the rollout leaves alone.")] = msgspec.field(default_factory=int)
    clusters: Annotated[
        list[ClusterRollout],
        field(
            "Clusters and their state, those that need attention first.",
            atomic=True,
            max_items=MAX_LISTED_CLUSTERS,
        ),
    ] = []
