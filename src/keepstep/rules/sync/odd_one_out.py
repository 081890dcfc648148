# SPDX-License-Identifier: Apache-2.0
"""SYN051: in a live job that hangs, the rank that the others wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keepstep.base import wording
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame, ProcessSeen, StackDump
from keepstep.model.finding import Confidence, Fix, Found, Safety
from keepstep.model.identity import everyone
from keepstep.model.rule import rule
from keepstep.rules.asking.process_endings import parent_of
from keepstep.rules.sync._awaited import by_guards
from keepstep.rules.sync._waiting import was
from keepstep.signals.stacks import Whose, innermost_user, place, whose
from keepstep.signals.waits import Wait, WaitKind, awaits_others, waits_in

BUSY = 0.5
"""The share of one core at which a rank counts as working, however long it takes."""
RUNNING = 0.05
"""The same for a rank that never sleeps: on a crowded host it gets little CPU time."""


@dataclass(frozen=True)
class Seen:
    """One live process: what it is, and where its main thread was."""

    process: Evidence[ProcessSeen]
    stack: Evidence[StackDump] | None
    wait: Wait | None
    user: Frame | None
    helpers: tuple[Evidence[StackDump], ...] = ()
    """Stacks of the children that prepare its input."""

    @property
    def rank(self) -> int | None:
        return self.process.who

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"pid {self.process.fact.pid}"

    @property
    def evidence(self) -> tuple[Evidence[Fact], ...]:
        return (*([self.stack] if self.stack is not None else []), self.process)

    @property
    def busy(self) -> bool:
        process = self.process.fact
        if not process.watched_s or process.cpu_s is None:
            return False
        least = RUNNING if process.state == "R" else BUSY
        return process.cpu_s > least * process.watched_s

    @property
    def slept(self) -> bool:
        """Whether its main thread never woke up while it was watched (once or twice is chance)."""
        process = self.process.fact
        return process.state != "R" and process.switches is not None and process.switches <= 2

    @property
    def waits_for_others(self) -> bool:
        return awaits_others(self.wait)

    @property
    def waits_for_device(self) -> bool:
        return self.wait is not None and self.wait.kind is WaitKind.DEVICE

    @property
    def signature(self) -> tuple[object, ...]:
        user = tuple((f.file, f.line) for f in self._frames if not f.is_native and whose(f) is Whose.USER)[:4]
        return (self.wait, user)

    @property
    def _frames(self) -> tuple[Frame, ...]:
        return self.stack.fact.frames if self.stack is not None else ()

    @property
    def where(self) -> str:
        """``time.sleep at train.py:22, in step()``."""
        parts = []
        if self.wait is not None:
            parts.append(self.wait.name)
        if self.user is not None:
            parts.append(place(self.user))
        elif self.wait is None and self._frames:
            parts.append(place(self._frames[0]))
        return " at ".join(parts) or "an unknown place"


def jobs(seen: EvidenceSet) -> Iterator[list[Seen]]:
    """The live processes of each job."""
    main = {e.fact.pid: e for e in seen.all(StackDump) if e.fact.living and e.fact.current}
    others: dict[int | None, list[Evidence[StackDump]]] = defaultdict(list)
    for stack in seen.all(StackDump):
        if stack.fact.living and not stack.fact.current:
            others[stack.fact.pid].append(stack)
    found: dict[str | None, list[Seen]] = defaultdict(list)
    for process in seen.all(ProcessSeen):
        mine = main.get(process.fact.pid)
        frames = mine.fact.frames if mine else ()
        wait = _named_better(waits_in(frames), others[process.fact.pid])
        helpers = tuple(e for e in seen.all(StackDump) if parent_of(e) == process.fact.pid)
        if wait is not None and wait.kind is WaitKind.INPUT:
            helpers += tuple(e for e in others[process.fact.pid] if _makes_input(e.fact))
        found[process.fact.job].append(Seen(process, mine, wait, innermost_user(frames), helpers))
    yield from found.values()


def _makes_input(thread: StackDump) -> bool:
    """Whether this thread runs the user's Python inside TensorFlow's input pipeline (a generator, a py_function)."""
    return any(f.file and f.file.endswith("tensorflow/python/ops/script_ops.py") for f in thread.frames)


def _named_better(wait: Wait | None, threads: list[Evidence[StackDump]]) -> Wait | None:
    """A wait for a device or a step is a wait for other ranks if a thread behind it is in a collective."""
    if wait is None or (wait.kind is not WaitKind.DEVICE and not wait.vague):
        return wait
    for thread in threads:
        behind = waits_in(f for f in thread.fact.frames if f.is_native)
        if behind is not None and behind.kind is WaitKind.COLLECTIVE:
            return behind
    return wait


def split(job: list[Seen]) -> tuple[list[Seen], list[Seen]]:
    """The ranks that wait for others, and those that do not.

    Where some rank is held up by something of its own, a rank that waits for its device counts as waiting
    for others: its device is in the collective.
    """
    held_up = [each for each in job if not each.waits_for_others and not each.waits_for_device]
    waiting = [each for each in job if each.waits_for_others or (held_up and each.waits_for_device)]
    return waiting, [each for each in job if each not in waiting]


def stands_still(job: list[Seen]) -> bool:
    """Whether no rank of the job moved while it was watched.

    Being at the same line each time is not enough: a short loop always is. Either the ranks
    that wait or the ones that hold them up must have slept all the time.
    """
    if not all(each.process.fact.still for each in job):
        return False
    waiting, odd = split(job)
    if any(each.busy for each in odd):
        return False
    return (bool(odd) and all(each.slept for each in odd)) or (bool(waiting) and all(each.slept for each in waiting))


def names(job: Iterable[Seen]) -> str:
    members = list(job)
    known = [each.rank for each in members if each.rank is not None]
    return wording.ranks(known) if len(known) == len(members) else wording.listing(each.name for each in members)


@rule(
    id="SYN051",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(ProcessSeen,),
    confidence=Confidence.SUPPORTED,
)
def odd_one_out(seen: EvidenceSet) -> Iterator[Found]:
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


def _launches(each: Seen, job: list[Seen]) -> bool:
    """Whether it only waits for children, and has no rank or shares its rank with another process."""
    alike = [other for other in job if other.rank == each.rank]
    return each.wait is not None and each.wait.kind is WaitKind.CHILDREN and (each.rank is None or len(alike) > 1)


def _stopped(stopped: list[Seen], others: list[Seen]) -> Iterator[Found]:
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


def _odd(odd: list[Seen], waiting: list[Seen]) -> Iterator[Found]:
    groups: dict[tuple[object, ...], list[Seen]] = defaultdict(list)
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
            title=f"{names(group)} {was(group)} stuck in {where} while {names(waiting)} waited in {_what(waiting)}",
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


def _alone(waiting: list[Seen], others: list[Seen]) -> Iterator[Found]:
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


def _worker_at(first: Seen) -> str:
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


def _in_the_kernel(odd: list[Seen]) -> Iterator[Found]:
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


def _all_wait(job: list[Seen]) -> Iterator[Found]:
    """Every rank here waits for others: one left early, or is missing."""
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


def _what(waiting: list[Seen]) -> str:
    known = dict.fromkeys(each.wait.name for each in waiting if each.wait is not None)
    return wording.listing(list(known)[:2]) or "a collective"


_ADVICE = {
    WaitKind.SLEEP: "remove the sleep, or let every rank sleep",
    WaitKind.LOCK: "find what holds the lock or fills the queue; the report shows the other threads of the process",
    WaitKind.INPUT: "look at the input pipeline of that rank: its files, its workers, its shard",
    WaitKind.FILE: "look at the file, socket or mount that it reads",
    WaitKind.DEVICE: "look at the device of that rank",
    WaitKind.CHILDREN: "look at the child processes of that rank",
    WaitKind.PERSON: "answer the prompt, or remove the breakpoint() or input(): one rank's prompt is easy to miss",
}


def _fixes(first: Seen) -> tuple[Fix, ...]:
    advice = _ADVICE.get(first.wait.kind) if first.wait is not None else None
    if first.process.fact.state == "D":
        advice = "look at the storage or mount behind it (NFS, FUSE, disk), and at the kernel log"
    looking = Fix(do="print its whole stack again", command=f"pystack remote --native {first.process.fact.pid}")
    return (Fix(do=advice), looking) if advice else (looking,)
