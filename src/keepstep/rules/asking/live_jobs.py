# SPDX-License-Identifier: Apache-2.0
"""Questions about a job that runs: where each of its processes is, and whether it moves at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from keepstep.base import wording
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.rules.api import Evidence, EvidenceSet, Fact, Frame, ProcessSeen, StackDump
from keepstep.rules.asking.process_endings import parent_of
from keepstep.signals.stacks import Whose, innermost_user, place, whose
from keepstep.signals.waits import Wait, WaitKind, awaits_others, waits_in

BUSY = 0.5
"""The share of one core at which a rank counts as working, however long it takes."""
RUNNING = 0.05
"""The same for a rank that never sleeps: on a crowded host it gets little CPU time."""

_ANSWERS = lazy_pattern(r"torch/distributed/rpc/internal\.py _run_function$")


@dataclass(frozen=True)
class LiveProcess:
    """One live process: what it is, and where its main thread was."""

    process: Evidence[ProcessSeen]
    stack: Evidence[StackDump] | None
    wait: Wait | None
    user: Frame | None
    helpers: tuple[Evidence[StackDump], ...] = ()
    """Stacks of the children that prepare its input."""
    asks: Evidence[StackDump] | None = None
    """Where its main thread waits for other ranks, while ``stack`` is of the thread that should answer them."""

    @property
    def rank(self) -> int | None:
        return self.process.who

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"pid {self.process.fact.pid}"

    @property
    def evidence(self) -> tuple[Evidence[Fact], ...]:
        stacks = [each for each in (self.stack, self.asks) if each is not None]
        return (*stacks, self.process)

    @property
    def busy(self) -> bool:
        process = self.process.fact
        if not process.watched_s or process.cpu_s is None or self._waits_with_both:
            return False
        least = RUNNING if process.state == "R" else BUSY
        return process.cpu_s > least * process.watched_s

    @property
    def _waits_with_both(self) -> bool:
        """Neither the thread that asks nor the one that answers runs. Carriers of messages poll, which is no work."""
        return self.asks is not None and self.wait is not None and self.wait.kind is WaitKind.LOCK

    @property
    def slept(self) -> bool:
        """Whether its main thread never woke up while it was watched (once or twice is chance)."""
        process = self.process.fact
        return process.state != "R" and process.switches is not None and process.switches <= 2

    @property
    def waits_for_others(self) -> bool:
        return awaits_others(self.wait)

    @property
    def waits_to_start(self) -> bool:
        return self.wait is not None and self.wait.kind is WaitKind.MEETING

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
        found = " at ".join(parts) or "an unknown place"
        asking = innermost_user(self.asks.fact.frames) if self.asks is not None else None
        return f"{found} (in a call from another rank; its own call waits at {place(asking)})" if asking else found


def jobs(seen: EvidenceSet) -> Iterator[list[LiveProcess]]:
    """The live processes of each job."""
    main = {e.fact.pid: e for e in seen.all(StackDump) if e.fact.living and e.fact.current}
    others: dict[int | None, list[Evidence[StackDump]]] = defaultdict(list)
    for stack in seen.all(StackDump):
        if stack.fact.living and not stack.fact.current:
            others[stack.fact.pid].append(stack)
    found: dict[str | None, list[LiveProcess]] = defaultdict(list)
    for process in seen.all(ProcessSeen):
        mine = main.get(process.fact.pid)
        frames = mine.fact.frames if mine else ()
        wait = _named_better(waits_in(frames), others[process.fact.pid])
        helpers = tuple(e for e in seen.all(StackDump) if parent_of(e) == process.fact.pid)
        if wait is not None and wait.kind is WaitKind.INPUT:
            helpers += tuple(e for e in others[process.fact.pid] if _makes_input(e.fact))
        each = LiveProcess(process, mine, wait, innermost_user(frames), helpers)
        found[process.fact.job].append(_as_it_answers(each, others[process.fact.pid]))
    yield from found.values()


def _as_it_answers(each: LiveProcess, threads: list[Evidence[StackDump]]) -> LiveProcess:
    """Where it waits for other ranks, but another thread runs what they called: they wait for that thread."""
    answers = next((e for e in threads if any(_ANSWERS.search(f"{f.file} {f.function}") for f in e.fact.frames)), None)
    if answers is None or each.stack is None or not each.waits_for_others:
        return each
    frames = answers.fact.frames
    return replace(each, stack=answers, wait=waits_in(frames), user=innermost_user(frames), asks=each.stack)


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


def split(job: list[LiveProcess]) -> tuple[list[LiveProcess], list[LiveProcess]]:
    """The ranks that wait for others, and those that do not.

    Where some rank is held up by something of its own, a rank that waits for its device counts as waiting
    for others: its device is in the collective.
    """
    held_up = [each for each in job if not each.waits_for_others and not each.waits_for_device]
    waiting = [each for each in job if each.waits_for_others or (held_up and each.waits_for_device)]
    return waiting, [each for each in job if each not in waiting]


def stands_still(job: list[LiveProcess]) -> bool:
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


def names(job: Iterable[LiveProcess]) -> str:
    members = list(job)
    known = [each.rank for each in members if each.rank is not None]
    return wording.ranks(known) if len(known) == len(members) else wording.listing(each.name for each in members)
