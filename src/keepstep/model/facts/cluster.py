# SPDX-License-Identifier: Apache-2.0
"""What a launcher's variables say about the cluster, process by process, and what the hosts show."""

from __future__ import annotations

from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


class Fault(Enum):
    """What is wrong with a variable."""

    TOO_LARGE = "is too large to be valid"
    NOT_JSON = "is not JSON"
    NOT_AN_OBJECT = "is not a JSON object"
    NO_CLUSTER = "has no cluster"
    NO_TASK = "has no task"
    BAD_CLUSTER = "has a cluster that does not map task types to addresses"
    NOBODY_TRAINS = "has neither a chief nor a worker"
    UNKNOWN_ROLE = "has an unknown task type"
    ROLE_NOT_IN_CLUSTER = "has a task type that its cluster lacks"
    INDEX_NOT_A_NUMBER = "has a task index that is not a number"
    INDEX_OUT_OF_RANGE = "has a task index beyond its cluster"
    ADDRESS_WITHOUT_PORT = "has an address without a port"
    PORT_OUT_OF_RANGE = "has a port that is out of range"
    SCHEME_IN_ADDRESS = "has a URL where an address belongs"
    ADDRESS_MALFORMED = "has a malformed address"
    DUPLICATE_ADDRESS = "gives two tasks the same address"
    SEVERAL_CHIEFS = "has more than one chief"
    EVALUATOR_IN_CLUSTER = "counts the evaluator as a member of the cluster"
    ABSENT = "is not set"
    NOT_A_NUMBER = "is not a number"
    OUT_OF_RANGE = "is out of range"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableFaulty(Fact):
    """A variable with a wrong value. ``better``: a right one, certain if ``sure``, else an example."""

    variable: str
    fault: Fault
    value: str | None = None
    wanted: str = ""
    column: int | None = None
    better: str | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen(Fact):
    """The cluster as one process's variables describe it. ``members`` are ``role:index@address``, in order."""

    said_by: str
    size: int
    members: tuple[str, ...] = ()
    own: str | None = None
    """``role:index`` of the process, or its rank."""
    own_rank: int | None = None
    meeting: str | None = None
    hosts: tuple[str, ...] = ()
    own_host: str | None = None
    own_port: int | None = None
    local_size: int | None = None
    """Ranks on this host, if the launcher says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesNamed(Fact):
    """On how many nodes a launcher put the ranks, or pods where it is Kubernetes."""

    said_by: str
    count: int
    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen(Fact):
    """The host that a process runs on: ``machine`` distinguishes hosts even if their names are equal."""

    name: str
    machine: str
    addresses: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    accelerators: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLookedUp(Fact):
    """What one of the cluster's host names resolves to here. No addresses: it does not resolve."""

    name: str
    addresses: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPrivileged(Fact):
    """The job needs to listen on a port, and the kernel does not let this process."""

    port: int
    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceWanted(Fact):
    """A variable that chooses network interfaces. ``matches``: those on this host that it selects."""

    variable: str
    value: str
    matches: tuple[str, ...] = ()
    loopback_only: bool = False
    """Whether all that it selects are loopback interfaces."""
    here: tuple[str, ...] = ()
    """The interfaces of this host that are up and have an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySet(Fact):
    """A proxy that gRPC would use, and the hosts of the cluster that are not exempt from it."""

    variable: str
    through: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedSetting(Fact):
    """A setting that must be the same in every process. ``value`` None: not set here."""

    name: str
    value: str | None = None
