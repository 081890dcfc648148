# SPDX-License-Identifier: Apache-2.0
"""SYN064: the log ends while the ranks set up their communication."""

from __future__ import annotations

from keepstep.model.facts import (
    AddressMap,
    CollectiveTimeout,
    ErrorSaid,
    ExceptionRaised,
    InterfaceUsed,
    Loudness,
    Phase,
    PhaseSeen,
    StepSeen,
    StreamEnded,
    TransportUsed,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
)

_SAID_AS_ONE_OF_MANY = r"init_distributed\] (?:cdb=|Initializing )|\bDeepSpeed info: version="
"""Messages of a program that is about to work with other ranks, whether or not we see those."""
_SET_UP = lazy_pattern(
    _SAID_AS_ONE_OF_MANY
    + r"|\b[NR]CCL INFO (?!.*(?:Abort COMPLETE|Destroy COMPLETE| -> [1-9]\b|terminat|operation=Stop| exit: stop ))"
    r"|^NCCL version \d|process rank \d+ is bound to device \d"
    r"|\[\d+\] INFO Launch mode |Setting up process group for: "
    r"|(?:Added key: |Completed )store[-_ ]based[-_ ]barrier|\| distributed init \(rank \d+\)"
    r"|Waiting for the cluster, timeout ="
    r"|Coordination agent has successfully connected|has connected to coordination service"
    r"|Connecting to JAX distributed service on|Collective all_reduce tensors: |batch_all_reduce: \d+ all-reduces"
)
_SERVER = lazy_pattern(r"Started server with target: grpc")
_WORKS = lazy_pattern(r"worker|chief|master")
_OTHER = lazy_pattern(
    _SAID_AS_ONE_OF_MANY + r"|\brank[ =:]{1,3}[1-9]|\bINFO Launch mode (?:Parallel|Group)|Waiting for the cluster"
    r"|oordination (?:agent|service)|JAX distributed service|group_size = (?!1\b)\d|all-reduces"
)
SEVERAL = 2
"""One rank alone has no other to wait for."""


@rule(
    id="SYN064",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(StreamEnded,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
)
def silent_in_setup(seen: EvidenceSet) -> Findings:
    """The ranks began to set up their communication, and the log ends there.

    ## What it looks like
    The last message of all ranks is a worker's `Started server with target: grpc://localhost:2222`,
    `Connecting to JAX distributed service`, `NCCL INFO Using network Socket`, `NCCL version 2.7.8+cuda11.1`,
    `Setting up process group for: env:// [rank=1, world_size=2]` or `process rank 1 is bound to device 1`.
    There is no error, and no step.

    ## Why it happens
    The ranks wait for each other: one does not join, the network between them lets only the first message
    through, or direct access between the GPUs does not work.

    ## How we know
    We do not: the log just ends there. Nothing failed, and no step was trained.

    ## What to do
    Look where each rank is stuck. Run with NCCL_DEBUG=INFO, then once without peer-to-peer access.

    ## When this is wrong
    The log was cut, the run had only just started, or the program prints nothing while it trains.
    """
    if seen.broken or any(seen.all(kind) for kind in (ExceptionRaised, CollectiveTimeout)):
        return
    if any(e.fact.step is not None or e.fact.loss is not None for e in seen.all(StepSeen)):
        return
    if any(e.fact.phase is not Phase.LOADING for e in seen.all(PhaseSeen)):
        return
    if any(e.fact.loudness in (Loudness.FATAL, Loudness.ERROR) for e in seen.all(ErrorSaid)):
        return
    ends = seen.all(StreamEnded)
    # a rank that is still loading holds up the others; the last message must be about the set-up
    others = [e for e in ends if not _sets_up(seen, e)]
    if len(others) == len(ends) or not _sets_up(seen, max(ends, key=_line)):
        return
    if others and (not seen.all(PhaseSeen) or len({e.origin.source for e in ends}) > 1):
        return
    writers = max(
        len(ends), len(seen.ranks), len({e.who for e in (*seen.all(InterfaceUsed), *seen.all(TransportUsed))})
    )
    members = sum(len(e.fact.addresses) for e in {e.fact.job: e for e in seen.all(AddressMap)}.values())
    several = max(writers, members, seen.world_size or 0) >= SEVERAL
    told = seen.world_size is None and any(_OTHER.search(e.fact.last) for e in ends)
    if not several and not told:
        return
    yield Found(
        title="the log ends while the ranks set up their communication",
        because="nothing failed and no step was trained: the ranks may be waiting for each other",
        evidence=ends[-SEVERAL:],
        ranks=(),
        fixes=(
            Fix(do="print where each rank is stuck", command="keepstep why --live"),
            Fix(do="have NCCL log what it does", command="export NCCL_DEBUG=INFO"),
            Fix(do="run once without peer-to-peer access, to compare", command="export NCCL_P2P_DISABLE=1"),
        ),
    )


def _sets_up(seen: EvidenceSet, ended: Evidence[StreamEnded]) -> bool:
    """Whether a stream ends in a message about the set-up. A healthy parameter server's log does too."""
    if _SET_UP.search(ended.fact.last):
        return True
    works = (e.fact for e in seen.all(AddressMap) if _WORKS.search(e.fact.job))
    return bool(_SERVER.search(ended.fact.last)) and any(
        address.startswith("localhost:") for fact in works for address in fact.addresses
    )


def _line(ended: Evidence[StreamEnded]) -> int:
    return ended.origin.line or 0
