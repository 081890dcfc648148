# SPDX-License-Identifier: Apache-2.0
"""RES003: a process was killed by SIGKILL, and there are signs that memory was short."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.process import ProcessExited
from keepstep.core.finding import Confidence, Fix, Found, Standing, ranks_of
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.resource.who_killed import WHO_KILLED, killed_first, memory_around, only_missed


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
    """A process was ended by SIGKILL without a word, and there are signs that host memory was short.

    ## What it looks like
    `failed (exitcode: -9)`, `terminated with signal SIGKILL`, `exited on signal 9`, `Killed`, exit code 137,
    and no exception of that process. The others see a reset connection.

    ## Why it happens
    The kernel's out-of-memory killer sends SIGKILL, and the process cannot say anything. It happens while
    a model or dataset is loaded by every rank, or when loader workers pile up.

    ## How we know
    SIGKILL came first, nothing else failed before, and readings of memory show little left; or, of a log alone, the
    process was still loading. That is a guess: who sent the signal is in the kernel log.

    ## What to do
    Look into the kernel log of the node, or the events of the pod; then treat it as lack of host memory.

    ## When this is wrong
    A person, a scheduler's grace period or a watchdog may have sent the signal.
    """
    killed = killed_first(seen)
    hints = memory_around(seen)
    if not killed or hints is None:
        return
    readings, words = hints
    blamed = ranks_of(killed) or tuple(e.fact.local_rank for e in killed if e.fact.local_rank is not None)
    name = ranks(blamed) if blamed else "a process"
    yield Found(
        title=f"{name} {'were' if len(set(blamed)) > 1 else 'was'} ended by SIGKILL, perhaps because host memory ran out",
        because=f"SIGKILL came first and without a word, as when the kernel's out-of-memory killer strikes; {words}",
        evidence=(*killed, *readings),
        ranks=blamed,
        confidence=Confidence.SUPPORTED if only_missed(seen, killed[0]) else None,
        fixes=(
            *WHO_KILLED,
            Fix(do="watch host memory while the run starts, and load less per process", command="free -m -s 5"),
        ),
    )
