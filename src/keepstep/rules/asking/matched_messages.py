# SPDX-License-Identifier: Apache-2.0
"""Whether a signature matched the message of an exception: then no rule needs to guess its cause."""

from __future__ import annotations

from keepstep.model.facts import (
    AcceleratorAsked,
    AcceleratorUsed,
    AddressMap,
    CollectiveCalled,
    CollectiveProgress,
    CollectiveTimeout,
    CommMember,
    ConnectFailed,
    DataMissing,
    DevicesLeft,
    DevicesNamed,
    DownloadSeen,
    EndpointGiven,
    ErrorSaid,
    ExceptionRaised,
    Fact,
    FastNetworkSeen,
    FatalSignal,
    GroupShutDown,
    HostSeen,
    InterfaceUsed,
    LastOwnLine,
    LifeBegan,
    LifeEnded,
    MemberPlaced,
    MemoryRead,
    NativeAbort,
    NativeFrameSeen,
    NetworkChosen,
    NodeSeen,
    NodesNamed,
    OnCpu,
    PeerAwaited,
    PeerLost,
    PhaseSeen,
    ProcessesStarted,
    ProcessExited,
    RankKnownBy,
    RanksArriving,
    RanksMissing,
    RanksOnHost,
    RanksPerNode,
    RendezvousTimeout,
    ServerStarted,
    SessionOpened,
    SizeVariable,
    StackDump,
    StartedWith,
    StepSeen,
    StreamEnded,
    TaskNamed,
    TerminationRequested,
    Throughput,
    TimeoutHeardOf,
    TracebackCut,
    TransportUsed,
    VersionSeen,
    WorldSeen,
)
from keepstep.rules.api import Evidence, EvidenceSet
from keepstep.rules.asking.exceptions import OF_THE_PROGRAM, Raised, lacks_a_name, reads_checkpoint, short_type

_SAY_NOTHING_OF_A_CAUSE = (
    AcceleratorAsked, AcceleratorUsed, AddressMap, CollectiveCalled, CollectiveProgress, CommMember,
    DataMissing, DevicesLeft, DevicesNamed, DownloadSeen, EndpointGiven, ErrorSaid, ExceptionRaised,
    FastNetworkSeen, FatalSignal, HostSeen, InterfaceUsed, LastOwnLine, LifeBegan, LifeEnded, MemberPlaced,
    MemoryRead, NativeAbort, NativeFrameSeen, NetworkChosen, NodeSeen, NodesNamed, OnCpu, PeerAwaited,
    PhaseSeen, ProcessExited, ProcessesStarted, RankKnownBy, RanksArriving, RanksOnHost, RanksPerNode,
    ServerStarted, SessionOpened, SizeVariable, StackDump, StartedWith, StepSeen, StreamEnded, TaskNamed,
    TerminationRequested, Throughput, TracebackCut, TransportUsed, VersionSeen, WorldSeen,
)  # fmt: skip
"""What runs say of themselves, healthy or not, and that something failed: none of it is a reason."""

SYMPTOMS = (PeerLost, ConnectFailed, RendezvousTimeout, CollectiveTimeout, TimeoutHeardOf, GroupShutDown, RanksMissing)


def recognised(seen: EvidenceSet, raised: Raised) -> bool:
    """Whether some signature matched this exception."""
    if reads_checkpoint(raised.fact) or lacks_a_name(raised.fact):
        return True
    line = raised.origin.line
    if line is None:
        return False
    last = line + raised.fact.lines
    reach = raised.fact.lines + (40 if raised.origin.stream else 0)
    others = [
        e.origin.line
        for e in seen.near(raised, ExceptionRaised, after=reach)
        if e.origin.line is not None and e.origin.line > line
    ]
    until = min(others) - 1 if others else line + reach
    inside = seen.near(raised, Fact, before=0, after=max(0, until - line))
    own = short_type(raised.fact) in OF_THE_PROGRAM
    return any(
        says_why(e.fact)
        and not (own and isinstance(e.fact, SYMPTOMS))
        and (e.origin.line != last or _quotes(raised.fact, e.quote))
        for e in inside
    )


def tells_more(seen: EvidenceSet, place: Evidence[Fact]) -> bool:
    """Whether the same line, or the next, states a cause through a fact of another kind."""
    return any(type(e.fact) is not type(place.fact) and says_why(e.fact) for e in seen.near(place, Fact, after=2))


def _quotes(fact: ExceptionRaised, quote: str) -> bool:
    """Whether a line belongs to the exception; its last line may be the first of something else."""
    return quote[:60].strip() in f"{fact.type}: {fact.message}"


def says_why(fact: Fact) -> bool:
    """Whether a fact names a reason for a failure, and not only that there was one."""
    if isinstance(fact, _SAY_NOTHING_OF_A_CAUSE):
        return False
    return getattr(fact, "fatal", True) is not False and getattr(fact, "final", True) is not False
