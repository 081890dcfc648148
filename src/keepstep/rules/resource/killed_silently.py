# SPDX-License-Identifier: Apache-2.0
"""RES003: SIGKILL ended a process, and there are signs that memory was short."""

from __future__ import annotations

from keepstep.model.facts import ProcessExited
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.asking.who_killed import WHO_KILLED, killed_first, memory_around, only_missed, who_was


@rule(
    id="RES003",
    cause=Cause.RESOURCE_HOST_OOM_KILLED,
    needs=(ProcessExited,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.UNKNOWN_NOT_ESTABLISHED),
)
def killed_silently(seen: EvidenceSet) -> Findings:
    """SIGKILL ended a process without a message, and there are signs that host memory was short.

    ## What it looks like
    `failed (exitcode: -9)`, `terminated with signal SIGKILL`, `exited on signal 9`, `Killed`, exit code 137,
    and no exception from that process. The other ranks see a reset connection.

    ## Why it happens
    The kernel's out-of-memory killer sends SIGKILL, and the process cannot print anything. It happens while every rank
    loads a model or dataset, or when loader workers pile up.

    ## How we know
    SIGKILL came first, nothing else failed before it, and memory readings show little left; or, if there is only a log,
    the process was still loading. That is a hypothesis: the kernel log says who sent the signal.

    ## What to do
    Check the kernel log of the node, or the events of the pod; then treat it as a lack of host memory.

    ## When this is wrong
    A person, a scheduler after its grace period, or a watchdog may have sent the signal.
    """
    killed = killed_first(seen)
    hints = memory_around(seen)
    if not killed or hints is None:
        return
    readings, words = hints
    blamed, were = who_was(seen, killed)
    yield Found(
        title=f"{were} killed (SIGKILL), perhaps because host memory ran out",
        because=f"SIGKILL came first and without a message, as from the kernel's out-of-memory killer; {words}",
        evidence=(*killed, *readings),
        ranks=blamed,
        confidence=Confidence.SUPPORTED if only_missed(seen, killed[0]) else None,
        fixes=(
            *WHO_KILLED,
            Fix(do="watch host memory while the run starts, and load less data per process", command="free -m -s 5"),
        ),
    )
