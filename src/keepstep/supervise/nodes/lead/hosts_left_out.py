# SPDX-License-Identifier: Apache-2.0
"""Which hosts a run goes on without, and what takes their place: pure functions of its failures.

A host is left out after two failures of its own. What the script, its data or its ranks' agreement broke would break on
every host, so it never counts, and neither does what only a peer reports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.wording import count, listing
from keepstep.model.cause import Cause
from keepstep.model.finding import Confidence
from keepstep.model.report import Report
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.start.layout import Layout

MOST_FAILURES = 2

OF_THE_HOST: Mapping[Cause, str] = {
    Cause.HARDWARE_GPU_FAULT_XID_ECC: "a device fault",
    Cause.HARDWARE_NVLINK_PCIE_P2P: "a fault between its devices",
    Cause.HARDWARE_TPU_UNHEALTHY: "an unhealthy TPU",
    Cause.HARDWARE_NIC_FAULT: "a network adapter fault",
    Cause.HARDWARE_MACHINE_FAULT: "a machine fault",
    Cause.NETWORK_UNREACHABLE_OR_FIREWALL: "no route to it",
    Cause.NETWORK_DNS: "a host name that it could not resolve",
    Cause.NETWORK_WRONG_INTERFACE: "an interface that does not reach the others",
    Cause.NETWORK_RDMA_IB: "an InfiniBand fault",
    Cause.NETWORK_MTU: "packets of the wrong size",
    Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES: "other versions than the other hosts",
    Cause.ENV_FRAMEWORK_CUDA_MISMATCH: "a driver that does not fit",
    Cause.ENV_MISSING_SHARED_LIBRARY: "a missing library",
    Cause.ENV_ABI_OR_CPU_INSTRUCTION: "a processor that lacks instructions",
    Cause.RESOURCE_DISK_FULL: "a full disk",
    Cause.TPU_INITIALIZATION_FAILURE: "a TPU that did not start",
}
"""What can be wrong with one host and right with another, and how it is called in a sentence.

Not here, though it names a host: running out of memory, of shared memory or of open files (the script asks for them),
a taken port or device (the next attempt takes others, or finds it free), what is only slow, a lost peer (it says
nothing about why), and a preemption (the engine's own will).
"""
CAN_BE_OF_ALL = frozenset(
    {
        Cause.NETWORK_DNS,
        Cause.NETWORK_WRONG_INTERFACE,
        Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
        Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
        Cause.ENV_MISSING_SHARED_LIBRARY,
        Cause.ENV_ABI_OR_CPU_INSTRUCTION,
        Cause.RESOURCE_DISK_FULL,
    }
)
"""A matter of how hosts are set up, which is often the same on all: counts only if exactly one host had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt ended, and on which hosts the report places that: on all, where a disk that they share is full.

    ``cause`` None: these hosts went silent or died, and nothing says why.
    """

    attempt: int
    cause: Cause | None
    hosts: tuple[str, ...]

    @property
    def blamed(self) -> tuple[str, ...]:
        """The hosts of which this is a failure of their own."""
        if self.cause is None:
            return self.hosts
        if self.cause not in OF_THE_HOST or (self.cause in CAN_BE_OF_ALL and len(set(self.hosts)) > 1):
            return ()
        return self.hosts

    @property
    def what(self) -> str:
        return "it went silent" if self.cause is None else OF_THE_HOST.get(self.cause, self.cause.value)

    @property
    def words(self) -> str:
        return f"attempt {self.attempt}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A host that takes no part any more."""

    host: str
    failures: tuple[Failure, ...]

    @property
    def words(self) -> str:
        history = "; ".join(each.words for each in self.failures)
        return f"{self.host} is left out: {count(len(self.failures), 'failure')} of its own ({history})"


def excluded(failures: Iterable[Failure]) -> tuple[Excluded, ...]:
    """The hosts with two failures of their own, in the order in which they had the second one."""
    own: dict[str, dict[int, Failure]] = {}
    found: dict[str, None] = {}
    for failure in failures:
        for host in dict.fromkeys(failure.blamed):
            history = own.setdefault(host, {})
            history.setdefault(failure.attempt, failure)  # two findings about one attempt are one failure
            if len(history) >= MOST_FAILURES:
                found.setdefault(host)
    return tuple(Excluded(host=host, failures=tuple(own[host].values())) for host in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWorld:
    """The nodes of the next attempt."""

    nodes: tuple[int, ...]
    """Empty: there are too few, and nothing can start."""
    words: tuple[str, ...] = ()
    """What changed, for people; one sentence each."""


def next_world(
    before: Sequence[int],
    present: Mapping[int, str],
    left_out: Collection[str] = (),
    *,
    least: int,
    most: int,
    per_node: int | None = None,
    names: Mapping[int, str] | None = None,
) -> HostWorld:
    """The nodes to go on with, as many of those before as can, in their places, then spare ones.

    ``before``: the nodes of the last attempt, none for the first one. ``present``: the hosts of the nodes there are.
    ``left_out``: hosts that :func:`excluded` names. ``least``: the fewest nodes that the script allows.
    ``names``: the hosts of nodes that are no longer there.
    """
    names = {**(names or {}), **present}
    usable = {node: host for node, host in present.items() if host not in left_out}
    earlier = set(before)
    spares = [node for node in sorted(usable) if node not in earlier]
    nodes: list[int] = []
    words: list[str] = []
    short: list[int] = []
    for node in before:
        if node in usable:
            nodes.append(node)
        elif spares:
            nodes.append(spares.pop(0))
            words.append(f"{_named(nodes[-1], usable)} replaces {_named(node, names)}")
        else:
            short.append(node)
    added = spares[: max(most - len(nodes) - len(short), 0)] if not short else []
    nodes += added
    nodes = nodes[:most]
    if len(nodes) < least:
        there = listing(usable[node] for node in sorted(nodes)) or "none"
        return HostWorld(
            nodes=(), words=(f"{count(least, 'node')} are needed, and {len(nodes)} can take part: {there}",)
        )
    if before and len(nodes) != len(before):
        who = listing(_named(node, names) for node in short) if short else listing(_named(n, usable) for n in added)
        words.append(_resized(len(before), len(nodes), who, per_node))
    return HostWorld(nodes=tuple(nodes), words=tuple(words))


def _named(node: int, hosts: Mapping[int, str]) -> str:
    return f"{hosts[node]} (node {node})" if node in hosts else f"node {node}"


def _resized(before: int, after: int, who: str, per_node: int | None) -> str:
    ranks = "" if per_node is None else f", {before * per_node} to {after * per_node} ranks"
    how = f"shrinks from {before} to {after} nodes{ranks}, because no spare replaces {who}"
    if after > before:
        how = f"grows from {before} to {after} nodes{ranks}, with {who}"
    share = f"{after}/{before}"
    return f"the world {how}; with the same batch per rank the global batch is {share} of what it was"


def failure_of(
    attempt: int,
    happened: Happened,
    report: Report,
    *,
    lost: Collection[str],
    machines: Collection[str],
    layout: Layout,
) -> Failure | None:
    """On which hosts a report places the failure of an attempt.

    ``lost``: the hosts that went silent; ``machines``: those of the attempt, the leader's first.
    """
    root = report.root
    if root is not None and root.cause in OF_THE_HOST and root.confidence is not Confidence.HYPOTHESIS and not lost:
        named = {each.rank.node for each in root.evidence if each.rank is not None and each.rank.node is not None}
        sat = {seat.machine for seat in layout.seats if seat.rank in root.ranks}
        return Failure(attempt=attempt, cause=root.cause, hosts=tuple(sorted(named & set(machines) or sat)))
    if happened is not Happened.NODE_LOST or not lost:
        return None
    if len(lost) > 1 and len(lost) >= len(machines) - 1:
        return None  # all others at once: it is the leader that was cut off
    return Failure(attempt=attempt, cause=None, hosts=tuple(sorted(lost)))
