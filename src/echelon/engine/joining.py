"""Who may have which certificate: the names that agents have on a hub, and what becomes of a request for one.

A certificate makes its bearer a cluster, with the works and the rights of that cluster. So a request is held against
one exact form, whoever asked and whoever approves. One that has the form may be approved; when it is, depends on who
asks: a cluster that renews is known, a bearer of a bootstrap token is somebody that a person has to vouch for.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

from echelon.api.certificates import CLIENT_SIGNER

PREFIX: Final = "system:open-cluster-management:"
ALL_CLUSTERS: Final = f"{PREFIX}managed-clusters"
BOOTSTRAP_USER_PREFIX: Final = "system:bootstrap:"
BOOTSTRAPPERS: Final = "system:bootstrappers:managedclusters"
BOOTSTRAPPERS_OF_ANY: Final = "system:bootstrappers:managedclusters-of-any-name"
CLUSTER_NAME_LABEL: Final = "open-cluster-management.io/cluster-name"
CLIENT_AUTH: Final = "client auth"
USAGES: Final = (CLIENT_AUTH, "digital signature", "key encipherment")

_CLUSTER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_AGENT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def agent_user(cluster: str, agent: str) -> str:
    """Return the name of an agent on the hub."""
    return f"{PREFIX}{cluster}:{agent}"


def agent_groups(cluster: str) -> tuple[str, str]:
    """Return the groups that agents of a cluster are in."""
    return f"{PREFIX}{cluster}", ALL_CLUSTERS


def bootstrap_groups(cluster: str) -> tuple[str, str]:
    """Return the groups of a bootstrap token that is for one cluster, or without a name for any."""
    return BOOTSTRAPPERS, f"{BOOTSTRAPPERS}:{cluster}" if cluster else BOOTSTRAPPERS_OF_ANY


def is_cluster_name(name: str) -> bool:
    """Whether a cluster can have this name: it is that of a namespace, too."""
    return _CLUSTER.fullmatch(name) is not None


@dataclass(frozen=True)
class Asked:
    """A request for a certificate: who asks, and for what. `more` is what the subject has besides, by name."""

    user: str
    groups: Sequence[str]
    signer: str
    usages: Sequence[str]
    names: Sequence[str]
    organizations: Sequence[str]
    more: Sequence[str] = ()
    unreadable: str = ""  # why it is no request at all

    @property
    def cluster(self) -> str:
        """The cluster that it is about; empty if it is about none."""
        name = self.names[0] if len(self.names) == 1 else ""
        parts = name.removeprefix(PREFIX).split(":") if name.startswith(PREFIX) else []
        return parts[0] if len(parts) == 2 else ""

    @property
    def is_by_bootstrap(self) -> bool:
        """Whether it is asked with a bootstrap token that is for joining."""
        return self.user.startswith(BOOTSTRAP_USER_PREFIX) and BOOTSTRAPPERS in self.groups

    @property
    def is_by_cluster(self) -> bool:
        """Whether a cluster asks."""
        return self.user.startswith(PREFIX) and ALL_CLUSTERS in self.groups


@dataclass(frozen=True)
class Known:
    """What the hub knows of the cluster that a request is about."""

    accepted: bool = False
    joined: bool = False  # it has been there with a certificate before
    leaving: bool = False


class Answer(Enum):
    """What becomes of a request."""

    IGNORE = "ignore"  # none of ours
    WAIT = "wait"  # for a person
    APPROVE = "approve"
    ACCEPT = "accept"  # approve, and accept the cluster
    DENY = "deny"


@dataclass(frozen=True)
class Judgement:
    """A verdict, and why."""

    verdict: Answer
    why: str = ""


def faults(asked: Asked) -> list[str]:
    """Return what keeps a request from having the form of a cluster's, in words for people; nothing if it has it."""
    return [asked.unreadable] if asked.unreadable else [*_faults(asked)]


def _faults(asked: Asked) -> Iterator[str]:
    if asked.signer != CLIENT_SIGNER:
        yield f"its signer is {asked.signer} and not {CLIENT_SIGNER}"
    if CLIENT_AUTH not in asked.usages or not set(asked.usages) <= set(USAGES):
        yield f"its usages are {', '.join(asked.usages) or 'none'}, and {CLIENT_AUTH} is all that an agent needs"
    cluster = asked.cluster
    agent = asked.names[0].rpartition(":")[2] if cluster else ""
    if not is_cluster_name(cluster) or not _AGENT.fullmatch(agent):
        shown = ", ".join(asked.names) or "nothing"
        yield f"it asks for the name {shown}, and an agent's is {agent_user('CLUSTER', 'AGENT')}"
        return
    wanted = agent_groups(cluster)
    if sorted(asked.organizations) != sorted(wanted):
        shown = ", ".join(asked.organizations) or "none"
        yield f"it asks for the groups {shown}, and those of {cluster} are {' and '.join(wanted)}"
    if asked.more:
        yield f"it asks for more than a name and groups: {', '.join(asked.more)}"
    yield from _faults_of_who(asked, cluster)


def _faults_of_who(asked: Asked, cluster: str) -> Iterator[str]:
    if asked.is_by_bootstrap:
        meant = sorted(group.removeprefix(f"{BOOTSTRAPPERS}:") for group in asked.groups if _names_a_cluster(group))
        if cluster not in meant and BOOTSTRAPPERS_OF_ANY not in asked.groups:
            yield f"its token is for {' and '.join(meant) or 'no cluster'} and not for {cluster}"
    elif asked.is_by_cluster:
        # Under another name it could outlive the end of the one that it has.
        if asked.user != asked.names[0]:
            yield f"{asked.user} may ask for its own name and not for {asked.names[0]}"
        elif agent_groups(cluster)[0] not in asked.groups:
            yield f"{asked.user} is not in the group {agent_groups(cluster)[0]}"
    else:
        yield f"{asked.user} has neither a bootstrap token for {cluster} nor its certificate"


def _names_a_cluster(group: str) -> bool:
    return group.startswith(f"{BOOTSTRAPPERS}:")


def judge(asked: Asked, known: Known | None, rules: Sequence[str] = ()) -> Judgement:
    """Say what becomes of a request without a person; `rules` are patterns of names that are accepted by themselves.

    What neither a bootstrap token nor a cluster asks for is none of our business, and neither is what clusters ask for
    under names that are not theirs in form: add-ons of Open Cluster Management do.
    """
    if not asked.is_by_bootstrap and not asked.is_by_cluster:
        return Judgement(Answer.IGNORE)
    if asked.is_by_cluster and not asked.cluster and asked.names and not asked.unreadable:
        return Judgement(Answer.IGNORE)
    if wrong := faults(asked):
        return Judgement(Answer.DENY, "; ".join(wrong))
    if known is not None and known.leaving:
        return Judgement(Answer.DENY, f"the cluster {asked.cluster} is leaving the fleet")
    if asked.is_by_cluster:
        if known is None or not known.accepted:
            return Judgement(Answer.DENY, f"the hub does not accept the cluster {asked.cluster}")
        return Judgement(Answer.APPROVE, "the cluster renews its certificate")
    if known is None:
        return Judgement(Answer.WAIT, "there is no such cluster yet")
    if known.joined:
        return Judgement(Answer.WAIT, "the cluster has joined before, so a person has to approve another identity")
    if known.accepted:
        return Judgement(Answer.APPROVE, "the hub accepts the cluster, and it is the first to join under its name")
    if any(fnmatchcase(asked.cluster, pattern) for pattern in rules):
        return Judgement(Answer.ACCEPT, "the name of the cluster is among those that are accepted by themselves")
    return Judgement(Answer.WAIT, "nobody has accepted the cluster yet")
