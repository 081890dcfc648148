# SPDX-License-Identifier: Apache-2.0
"""NET004: a connection to a peer was lost, and nothing says why."""

from __future__ import annotations

from keepstep.model.facts import PeerLost, ProcessExited
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.left_normally import Finished, finished_well, was_done_too
from keepstep.rules.network._peers import after_the_end, lost_rank, stated


@rule(
    id="NET004",
    cause=Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    needs=(PeerLost,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
)
def connection_reset_peer_died(seen: EvidenceSet) -> Findings:
    """A connection to another rank was lost, and no evidence shows why that rank went away.

    ## What it looks like
    `Connection reset by peer`, `Connection closed by peer`, `Broken pipe`, `Did the remote server shutdown or
    crash?`, `remote process exited or there was a network error`, heartbeats that stop.

    ## Why it happens
    The other process died: killed for memory, crashed, preempted, ended by hand, or its host failed.

    ## How we know
    The other side broke an open connection. This is what the surviving ranks saw.

    ## What to do
    Read the output, the kernel log and the scheduler's record of the rank that went away.

    ## When this is wrong
    A network that drops idle connections causes the same messages, on both sides.
    """
    lost = [e for e in seen.all(PeerLost) if e.fact.final and not seen.survived(e)]
    if not lost and seen.broken:
        lost = [e for e in seen.all(PeerLost) if not seen.survived(e)]
    if not seen.broken:
        lost = [e for e in lost if not after_the_end(seen, e)]
    if not lost or (not seen.broken and any(seen.survived(e) for e in seen.all(PeerLost))):
        return
    if all(_follows_an_exit(seen, e) for e in lost):
        return
    gone = lost_rank(seen, lost)
    left = _left_normally(seen, lost) if not gone else {}
    if left:
        yield _left(left, lost)
        return
    ended = tuple(e for e in seen.bad_exits if e.who is not None and e.who in gone)[:2]
    peer = stated(tuple(lost))
    whom = say_ranks(gone) if gone else f"peer {peer}" if peer else "a peer"
    yield Found(
        title=f"{whom} went away: {lost[0].fact.how}",
        because=_because(lost, ended),
        evidence=(*ended, *lost),
        ranks=gone,
        fixes=(
            Fix(
                do="read the output of the process that went away, and check whether the kernel killed it",
                command="dmesg -T | grep -iE 'killed process|oom|segfault|xid'",
            ),
            Fix(do="ask the scheduler how it ended", command="sacct -u $USER -o JobID,State,ExitCode,MaxRSS"),
        ),
    )


def _left_normally(seen: EvidenceSet, lost: list[Evidence[PeerLost]]) -> Finished:
    """The few ranks that ended well before the others lost them, which had nothing left to do either."""
    others = {e.who for e in lost if e.who is not None}
    left = {rank: e for rank, e in finished_well(seen).items() if rank not in others}
    done = bool(others) and all(was_done_too(seen, rank) for rank in others)
    return left if done and len(left) <= 2 else {}


def _left(left: Finished, lost: list[Evidence[PeerLost]]) -> Found:
    ranks = tuple(sorted(left))
    others = tuple(sorted({e.who for e in lost if e.who is not None}))
    return Found(
        title=f"{say_ranks(ranks)} left when the work was done, before {say_ranks(others)} had",
        because=f"{say_ranks(ranks)} ended well; the others had done their work too, and lost it on their way out",
        evidence=(*left.values(), *lost[:3]),
        ranks=ranks,
        fixes=(
            Fix(
                do="let all ranks leave together",
                code="jax.distributed.shutdown()  # torch: dist.barrier(); dist.destroy_process_group()",
            ),
            Fix(do="the results are complete: do not start this run again for these errors"),
        ),
    )


def _because(lost: list[Evidence[PeerLost]], ended: tuple[Evidence[ProcessExited], ...]) -> str:
    if ended:
        fact = ended[0].fact
        return f"rank {ended[0].who} ended with {fact.signal or f'status {fact.code}'}; no evidence shows why"
    return (_ABSENT if all("exit barrier" in e.fact.how for e in lost) else _BROKE) + "; no evidence shows why"


def _follows_an_exit(seen: EvidenceSet, lost: Evidence[PeerLost]) -> bool:
    """Whether a launcher had already reported, in the same log, that another rank exited first, and not by a signal."""
    return any(
        e.fact.first
        and e.who not in (None, lost.who)
        and 0 < (e.fact.code or 0) < SIGNALS
        and e.origin.source == lost.origin.source
        and (e.origin.line or 0) < (lost.origin.line or 0)
        for e in seen.all(ProcessExited)
    )


_BROKE = "the other side broke an open connection"
_ABSENT = "a worker failed, and the agent of the other host never reached the exit barrier"
SIGNALS = 128
"""From here on, exit codes are a shell's way to report a signal."""
