# SPDX-License-Identifier: Apache-2.0
"""Questions about the processes of a run: how they ended, which rank they were, what to call them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from keepstep.model.facts import ExceptionRaised, Fact, GroupShutDown, PeerLost, ProcessExited, StackDump
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Evidence, EvidenceSet, HostPid, lazy_pattern, ranks, ranks_of
from keepstep.story.who_is_who import rank_of_exit

F = TypeVar("F", bound=Fact)

OF_A_DEAD_RANK = (
    *SEEN_BY_OTHER_RANKS,
    Cause.WORKER_PARAMETER_SERVER_LOST,
    Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    Cause.UNKNOWN_NOT_ESTABLISHED,
)
"""What the other ranks see when one of them dies."""

_CHILD = lazy_pattern(r"^pid \d+ \(child of (?P<parent>\d+)\)")
_NUMBERS = {"SIGILL": 4, "SIGABRT": 6, "SIGBUS": 7, "SIGKILL": 9, "SIGSEGV": 11, "SIGTERM": 15}


def once_a_line(evidence: Iterable[Evidence[F]]) -> tuple[Evidence[F], ...]:
    """The evidence with each line counted once; the most detailed fact is kept."""
    kept: dict[object, Evidence[F]] = {}
    for each in evidence:
        key = (each.origin, type(each.fact)) if each.origin.line is not None else id(each)
        known = kept.get(key)
        if known is None or _details(each.fact) > _details(known.fact):
            kept[key] = each
    return tuple(kept.values())


def _details(fact: Fact) -> int:
    return sum(getattr(fact, name) not in (None, ()) for name in fact.__dataclass_fields__)


def ended_by(fact: ProcessExited, signal: str) -> bool:
    """Whether a signal ended a process, given as ``SIGKILL``, ``-9``, ``137`` or ``247``."""
    number = _NUMBERS[signal]
    return fact.signal == signal or (fact.signal is None and fact.code in (-number, 128 + number, 256 - number))


def parent_of(stack: Evidence[StackDump]) -> int | None:
    """The rank's process, if this is a stack of a child of one."""
    named = _CHILD.search(stack.origin.source)
    if named is None:
        return None
    pid = stack.fact.pid
    return HostPid(int(named["parent"]), pid.host) if isinstance(pid, HostPid) else int(named["parent"])


def rank_of_pid(seen: EvidenceSet, pid: int | None) -> int | None:
    """The rank that ran as this process, if a launcher said so."""
    if pid is None:
        return None
    for each in seen.all(ProcessExited):
        if each.fact.pid == pid:
            return rank_of_exit(seen, each)
    return None


def ended_badly(seen: EvidenceSet) -> bool:
    """Whether the output of any rank shows that the run failed."""
    return (
        seen.broken
        or bool(seen.all(GroupShutDown))
        or bool(seen.all(PeerLost))
        or any(not seen.survived(e) for e in seen.all(ExceptionRaised))
    )


def of_another(seen: EvidenceSet, evidence: Evidence[Fact]) -> bool:
    """Whether this host's kernel names a process that the run's output never mentions."""
    pid = getattr(evidence.fact, "pid", None)
    return evidence.origin.line is None and pid is not None and rank_of_pid(seen, pid) is None


def who(evidence: tuple[Evidence[F], ...], more: Iterable[int] = ()) -> str:
    """``rank 3`` or ``a process``: for the beginning of a title."""
    known = (*more, *ranks_of(evidence))
    return ranks(known) if known else "a process"


def host_of(checked: Evidence[Fact]) -> str:
    """The host that a part of the preflight looked at."""
    if checked.rank is not None and checked.rank.node is not None:
        return checked.rank.node
    return checked.origin.source.rpartition(" on ")[2]
