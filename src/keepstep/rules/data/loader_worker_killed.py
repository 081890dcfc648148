# SPDX-License-Identifier: Apache-2.0
"""DAT008: a data loader worker died."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, LoaderWorkerDied, Standing, rule
from keepstep.rules.asking.exceptions import is_of_the_teardown
from keepstep.rules.asking.fallout import FALLOUT, lasting, who


@rule(
    id="DAT008",
    cause=Cause.DATA_LOADER_WORKER_KILLED,
    needs=(LoaderWorkerDied,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(*FALLOUT, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def loader_worker_killed(seen: EvidenceSet) -> Findings:
    """A data loader worker died, and nothing says why.

    ## What it looks like
    `DataLoader worker (pid 1288) exited unexpectedly`, or `is killed by signal: Segmentation fault`.

    ## Why it happens
    The worker ran out of memory or shared memory, crashed in native code (an image or video decoder, a database handle
    shared across fork), or was killed by the system.

    ## How we know
    The parent process noticed that the worker had exited. The log does not say why; where other evidence does (out of
    memory, a full /dev/shm), that is reported instead. Below an exception that ended the rank, it does not count.

    ## What to do
    Run once without workers: the error then appears in the main process.

    ## When this is wrong
    When a rank fails, its loader workers end with it. Then this is only fallout.
    """
    found = tuple(e for e in lasting(seen, LoaderWorkerDied) if not is_of_the_teardown(seen, e))
    if not found:
        return
    signal = next((e.fact.signal for e in found if e.fact.signal), None)
    stopped = signal is not None and signal.upper() in ("SIGTERM", "TERMINATED", "15")
    killed = signal is not None and signal.upper() in ("SIGKILL", "KILLED", "9")
    yield Found(
        title=f"a data loader worker of {who(found)} died" + (f" ({signal})" if signal else " without a message"),
        because="the loader lost its worker process"
        + (": most likely, the kernel killed it for host memory" if killed else " and could not go on"),
        evidence=found,
        confidence=Confidence.HYPOTHESIS if stopped else Confidence.SUPPORTED,
        fixes=(
            Fix(do="run once without workers to get the error message", code="DataLoader(..., num_workers=0)"),
            Fix(do="look for a kill by the kernel", command="dmesg -T | grep -iE 'killed process|out of memory'"),
        ),
    )
