# SPDX-License-Identifier: Apache-2.0
"""RES003: a process was killed by SIGKILL and nothing says by whom."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.network import PeerLost, RendezvousTimeout
from keepstep.core.facts.platform import MemberRestarted, ParameterServerLost, Preempted
from keepstep.core.facts.process import FatalSignal, NativeAbort, ProcessExited
from keepstep.core.facts.resource import HostAllocationFailed, OomKilled
from keepstep.core.facts.sync import CollectiveTimeout, GroupShutDown, RanksMissing
from keepstep.core.finding import Confidence, Fix, Found, Standing, ranks_of
from keepstep.core.first_rank import first_exits
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.resource.lookup import ended_by, once_a_line

_LOSSES: tuple[type[Fact], ...] = (PeerLost, RanksMissing, GroupShutDown)
_WAITS: tuple[type[Fact], ...] = (CollectiveTimeout, RendezvousTimeout)
_OTHER_STORIES: tuple[type[Fact], ...] = (ParameterServerLost, MemberRestarted)
_TELLING: tuple[type[Fact], ...] = (OomKilled, HostAllocationFailed, Preempted, FatalSignal, NativeAbort)


@rule(
    id="RES003",
    cause=Cause.RESOURCE_HOST_OOM_KILLED,
    needs=(ProcessExited,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.UNKNOWN_NOT_ESTABLISHED,
    ),
)
def killed_silently(seen: EvidenceSet) -> Iterator[Found]:
    """A process was ended by SIGKILL without a word: most often the kernel, for host memory.

    ## What it looks like
    `failed (exitcode: -9)`, `terminated with signal SIGKILL`, `exited on signal 9`, `Killed`, exit code 137,
    and no exception of that process. The others see a reset connection.

    ## Why it happens
    The kernel's out-of-memory killer sends SIGKILL, and the process cannot say anything. It happens while
    a model or dataset is loaded by every rank, or when loader workers pile up.

    ## How we know
    Only that SIGKILL came first and that nothing else failed before. Who sent it is in the kernel log.

    ## What to do
    Look into the kernel log of the node, or the events of the pod; then treat it as lack of host memory.

    ## When this is wrong
    A person, a scheduler's grace period or a watchdog may have sent the signal.
    """
    if any(seen.all(kind) for kind in _TELLING):
        return
    exits = [e for e in seen.all(ProcessExited) if e.fact.code or e.fact.signal]
    first = [e for e in first_exits(seen) if e.fact.code or e.fact.signal]
    killed = [e for e in (first or exits) if ended_by(e.fact, "SIGKILL")]
    own = [
        e
        for e in exits
        if not ended_by(e.fact, "SIGKILL")
        and not ended_by(e.fact, "SIGTERM")
        and not (e.fact.code == 1 and _wrapper(e.fact))
    ]
    if not killed or (own and not first) or _ends_the_rest(seen.all(ProcessExited)):
        return
    evidence = once_a_line(killed)
    blamed = ranks_of(evidence) or tuple(e.fact.local_rank for e in evidence if e.fact.local_rank is not None)
    name = ranks(blamed) if blamed else "a process"
    yield Found(
        title=f"{name} {'were' if len(set(blamed)) > 1 else 'was'} ended by SIGKILL, most often a sign that host memory ran out",
        because="SIGKILL came first and without a word, as when the kernel's out-of-memory killer strikes",
        evidence=evidence,
        ranks=blamed,
        confidence=Confidence.SUPPORTED if _only_missed(seen, killed[0]) else None,
        fixes=(
            Fix(
                do="look for the killer in the kernel log of the node",
                command="dmesg -T | grep -iE 'oom|out of memory|killed process'",
            ),
            Fix(
                do="in Kubernetes, see the last state of the pod",
                command="kubectl describe pod POD | grep -A5 'Last State'",
            ),
            Fix(
                do="watch host memory while the run starts, and load less per process", command="free -m -s 5"
            ),
        ),
    )


def _only_missed(seen: EvidenceSet, killed: Evidence[ProcessExited]) -> bool:
    """Whether the others show nothing but the loss of it: then its end came first, whoever sent the signal.

    A wait that ended after it was a wait for the one that was killed.
    """
    here = seen.position[id(killed)]
    if any(seen.all(kind) for kind in _OTHER_STORIES):
        return False
    if any(seen.position[id(e)] < here for kind in _WAITS for e in seen.all(kind)):
        return False
    return any(any(not seen.survived(e) for e in seen.all(kind)) for kind in _LOSSES)


def _ends_the_rest(exits: tuple[Evidence[ProcessExited], ...]) -> bool:
    """Whether srun told of a task that ended by itself before those that were killed: then it killed these."""
    tasks = [e.fact for e in exits if e.fact.reporter == "srun"]
    return bool(tasks) and len(tasks) == len(exits) and not ended_by(tasks[0], "SIGKILL") and len({t.rank for t in tasks}) > 1


def _wrapper(fact: ProcessExited) -> bool:
    """Launchers and shells report status 1 of their own for a child that was killed."""
    return fact.reporter in ("subprocess", "container", "Kubernetes", "shell", "mpirun", "srun")
