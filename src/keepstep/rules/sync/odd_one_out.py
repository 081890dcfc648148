# SPDX-License-Identifier: Apache-2.0
"""SYN051: in a live job that hangs, the rank that the others wait for."""

from __future__ import annotations

from collections import defaultdict

from keepstep.base import wording
from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    ProcessSeen,
    RankDoing,
    RankStopped,
    Safety,
    everyone,
    rule,
)
from keepstep.rules.asking.live_jobs import LiveProcess, jobs, names, split, stands_still
from keepstep.rules.sync._awaited import by_guards, by_steps
from keepstep.rules.sync._waiting import was
from keepstep.signals.stacks import innermost_user, place
from keepstep.signals.waits import WaitKind, waits_in


@rule(
    id="SYN051", cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, needs=(ProcessSeen,), confidence=Confidence.SUPPORTED
)
def odd_one_out(seen: EvidenceSet) -> Findings:
    """In a live job that hangs, most ranks wait in a collective and one is stuck somewhere else.

    ## What it looks like
    The job prints nothing more. Most ranks are in the same collective, barrier or shutdown; one or a few
    are elsewhere: in a sleep, a lock, the input pipeline or a read, or they are stopped.

    ## Why it happens
    A collective ends only when every rank has joined it. One rank that is held up by something of its own (a
    data loader, a lock, a remote file system, a debugger, a `SIGSTOP`, work that only rank 0 does) holds up all.

    ## How we know
    keepstep took the stacks of all processes several times over a few seconds. No rank moved in that time,
    and the named rank used almost no CPU time: a rank that computes is not called stuck.

    ## What to do
    Look at the named line. Release what it waits for, let all ranks reach the barrier around work that only one
    rank does, or give the slow part more time before the collective.

    ## When this is wrong
    A step may really take longer than the stacks were watched, with its work on a device or another host.
    Look again a minute later: a stuck rank is still at the same line.
    """
    for job in jobs(seen):
        stopped = [each for each in job if each.process.fact.state in ("T", "t")]
        if stopped:
            yield from _stopped(stopped, [each for each in job if each not in stopped])
            continue
        job = [each for each in job if not _launches(each, job)] or job
        behind = _behind(seen, job)
        if behind:
            yield from _odd(behind, [each for each in job if each not in behind])
            continue
        if not stands_still(job):
            continue
        waiting, odd = split(job)
        if not waiting:
            yield from _in_the_kernel(odd)
        elif len(waiting) < len(odd) and all(each.waits_for_device for each in odd):
            yield from _alone(waiting, odd)
        elif odd:
            awaited = by_guards(seen)
            to_blame = [each for each in odd if awaited is not None and each.rank in awaited.ranks]
            yield from _odd(to_blame or odd, waiting)
        else:
            yield from _all_wait(job)


_OF_ITS_OWN = (WaitKind.SLEEP, WaitKind.LOCK, WaitKind.INPUT, WaitKind.FILE, WaitKind.CHILDREN, WaitKind.PERSON)


def _behind(seen: EvidenceSet, job: list[LiveProcess]) -> list[LiveProcess]:
    """Where stacks do not show what the others wait for: ranks in a wait of their own, behind by their boxes."""
    if any(each.waits_for_others for each in job) or not all(each.process.fact.still for each in job):
        return []
    doing = {e.who: e for e in seen.all(RankDoing) if e.who is not None}
    late = {e.who for e in seen.all(RankStopped)} or set(by_steps(doing) if len(doing) == len(job) else ())
    found = [each for each in job if each.rank in late and each.slept]
    rest = [each for each in job if each not in found]
    held = all(each.wait is not None and each.wait.kind in _OF_ITS_OWN for each in found)
    if not found or not rest or len(found) != len(late) or not held:
        return []
    wait = all((each.wait is None or each.waits_for_device) and each.slept and not each.busy for each in rest)
    return found if wait else []


def _launches(each: LiveProcess, job: list[LiveProcess]) -> bool:
    """Whether it only waits for children, and has no rank or shares its rank with another process."""
    alike = [other for other in job if other.rank == each.rank]
    return each.wait is not None and each.wait.kind is WaitKind.CHILDREN and (each.rank is None or len(alike) > 1)


def _stopped(stopped: list[LiveProcess], others: list[LiveProcess]) -> Findings:
    traced = all(each.process.fact.state == "t" for each in stopped)
    how = "by a debugger or tracer" if traced else "by a signal (SIGSTOP)"
    pids = " ".join(str(each.process.fact.pid) for each in stopped)
    waiting = [each for each in others if each.waits_for_others]
    rest = f" while {names(waiting)} waited in {_what(waiting)}" if waiting else ""
    yield Found(
        title=f"{names(stopped)} {was(stopped)} stopped {how}{rest}",
        because="a stopped process runs no code, so the ranks that need it wait",
        evidence=tuple(e for each in (*stopped, *waiting) for e in each.evidence),
        ranks=tuple(each.rank for each in stopped if each.rank is not None),
        confidence=Confidence.ESTABLISHED,
        fixes=(
            Fix(do="detach the debugger")
            if traced
            else Fix(do="let it continue", command=f"kill -CONT {pids}", safety=Safety.NEEDS_OWNER),
        ),
    )


def _odd(odd: list[LiveProcess], waiting: list[LiveProcess]) -> Findings:
    groups: dict[tuple[object, ...], list[LiveProcess]] = defaultdict(list)
    for each in odd:
        groups[each.signature].append(each)
    for group in sorted(groups.values(), key=len)[:3]:
        first = group[0]
        process = first.process.fact
        asleep = all(each.process.fact.switches == 0 for each in group)
        in_kernel = process.state == "D"
        where = first.where + (f" (uninterruptible, in the kernel's {process.waits_in or 'I/O'})" if in_kernel else "")
        watched = wording.duration(process.watched_s or 0.0)
        yield Found(
            title=f"{names(group)} {was(group)} stuck in {where} while {names(waiting)} waited {_in(waiting)}",
            because=(
                f"{names(waiting)} cannot continue without {names(group)}, which stayed in {first.where} "
                f"for {watched}{' and never woke up' if asleep else ''}{_worker_at(first)}"
            ),
            evidence=(*(e for each in (*group, *waiting) for e in each.evidence), *first.helpers[:4]),
            ranks=tuple(each.rank for each in group if each.rank is not None),
            confidence=Confidence.ESTABLISHED
            if asleep and first.wait is not None and any(w.waits_for_others for w in waiting)
            else Confidence.SUPPORTED,
            fixes=_fixes(first),
        )


def _alone(waiting: list[LiveProcess], others: list[LiveProcess]) -> Findings:
    """A few ranks wait in a collective of their own, while the devices of most are in another one."""
    first = waiting[0]
    yield Found(
        title=f"{names(waiting)} waited in {first.where}, which {names(others)} did not reach",
        because=f"{names(others)} waited in {others[0].where} each time, which is elsewhere in the program",
        evidence=tuple(e for each in (*waiting, *others) for e in each.evidence),
        ranks=tuple(each.rank for each in waiting if each.rank is not None),
        fixes=(
            Fix(do="let every rank reach the same collectives; look for the branch that only some ranks take"),
            Fix(do="print its whole stack again", command=f"pystack remote --native {first.process.fact.pid}"),
        ),
    )


def _worker_at(first: LiveProcess) -> str:
    """Where a loader worker is in the user's own code."""
    for helper in first.helpers:
        line = innermost_user(helper.fact.frames)
        wait = waits_in(helper.fact.frames)
        if line is not None and (wait is None or wait.kind is not WaitKind.INPUT) and line != first.user:
            name = (
                f"its worker (pid {helper.fact.pid})"
                if helper.origin.source.endswith(")")
                else "a thread of its input pipeline"
            )
            return f"; {name} is in {f'{wait.name} at ' if wait else ''}{place(line)}"
    return ""


def _in_the_kernel(odd: list[LiveProcess]) -> Findings:
    """No rank waits in a collective, but a process cannot be woken up."""
    stuck = [each for each in odd if each.process.fact.state == "D"]
    if stuck:
        first = stuck[0]
        yield Found(
            title=f"{names(stuck)} {was(stuck)} stuck in uninterruptible I/O at {first.where}",
            because=f"the kernel held it in {first.process.fact.waits_in or 'I/O'} each time we looked",
            evidence=tuple(e for each in stuck for e in each.evidence),
            fixes=_fixes(first),
        )


def _all_wait(job: list[LiveProcess]) -> Findings:
    """Every rank here waits for others: one left early, or is missing."""
    if any(each.wait is not None and each.wait.kind is WaitKind.ANSWER for each in job):
        return  # those that only answer wait in their shutdown, from the first step on
    leaving = [each for each in job if each.wait is not None and each.wait.kind is WaitKind.LEAVING]
    staying = [each for each in job if each not in leaving]
    if leaving and staying:
        yield Found(
            title=(
                f"{names(leaving)} {was(leaving)} already in {_what(leaving)} "
                f"while {names(staying)} waited in {_what(staying)}"
            ),
            because=(
                f"{names(leaving)} left the training before the last collective of {names(staying)}, "
                "so their numbers of steps differ"
            ),
            evidence=tuple(e for each in (*leaving, *staying) for e in each.evidence),
            ranks=tuple(each.rank for each in leaving if each.rank is not None),
            fixes=(
                Fix(
                    do="give every rank the same number of steps (drop_last, Join, equal shards)",
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
        return
    if len({each.signature for each in job}) > 1 or any(each.busy for each in job):
        return
    here = {each.rank for each in job if each.rank is not None}
    world = max((each.process.fact.world or 0 for each in job), default=0)
    missing = sorted(set(everyone(world)) - here)
    vague = job[0].wait is not None and job[0].wait.vague
    if not missing or len(here) != len(job) or vague:
        return
    yield Found(
        title=f"{names(job)} waited in {_what(job)} for {wording.ranks(missing)}, not found on this host",
        because=(
            f"only {len(job)} of {world} ranks run here, all at the same place; "
            f"{wording.ranks(missing)} died or runs on another host"
        ),
        evidence=tuple(e for each in job for e in each.evidence),
        ranks=tuple(missing),
        confidence=Confidence.HYPOTHESIS,
        fixes=(Fix(do="look at the hosts of the other ranks too", command="keepstep why --live"),),
    )


def _what(waiting: list[LiveProcess]) -> str:
    known = dict.fromkeys(each.wait.name for each in waiting if each.wait is not None)
    return wording.listing(list(known)[:2]) or "a collective"


def _in(waiting: list[LiveProcess]) -> str:
    """``in all_reduce``; at its line, if only that is known."""
    first = waiting[0]
    return f"at {first.where}" if first.wait is None and first.user is not None else f"in {_what(waiting)}"


_ADVICE = {
    WaitKind.SLEEP: "remove the sleep, or let every rank sleep",
    WaitKind.LOCK: "find what holds the lock or fills the queue; the report shows the other threads of the process",
    WaitKind.INPUT: "look at the input pipeline of that rank: its files, its workers, its shard",
    WaitKind.FILE: "look at the file, socket or mount that it reads",
    WaitKind.DEVICE: "look at the device of that rank",
    WaitKind.CHILDREN: "look at the child processes of that rank",
    WaitKind.PERSON: "answer the prompt, or remove the breakpoint() or input(): one rank's prompt is easy to miss",
}


def _fixes(first: LiveProcess) -> tuple[Fix, ...]:
    advice = _ADVICE.get(first.wait.kind) if first.wait is not None else None
    if first.asks is not None:
        advice = "hold no lock during a call to another rank: what that rank calls here in turn may need the same lock"
    if first.process.fact.state == "D":
        advice = "look at the storage or mount behind it (NFS, FUSE, disk), and at the kernel log"
    looking = Fix(do="print its whole stack again", command=f"pystack remote --native {first.process.fact.pid}")
    return (Fix(do=advice), looking) if advice else (looking,)
