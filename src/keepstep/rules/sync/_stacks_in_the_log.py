# SPDX-License-Identifier: Apache-2.0
"""Stacks of live processes found in a log, process by process."""

from __future__ import annotations

from dataclasses import dataclass, field

from keepstep.rules.api import CoreDump, Evidence, EvidenceSet, FatalSignal, NativeAbort, ProcessSeen, StackDump
from keepstep.signals.waits import Wait, WaitKind, awaits_others, waits_in

Stack = Evidence[StackDump]


@dataclass
class Process:
    """The threads of one process, in the order in which they were printed."""

    threads: list[Stack] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else "a process"

    @property
    def rank(self) -> int | None:
        return next((e.who for e in self.threads if e.who is not None), None)

    @property
    def main(self) -> Stack | None:
        """faulthandler prints the main thread last, py-spy first."""
        named = [e for e in self.threads if e.fact.current]
        whole = [e for e in self.threads if e.fact.frames and e.fact.frames[-1].function == "<module>"]
        return next(reversed(named or whole), None)

    @property
    def shown(self) -> Stack:
        return self.main or self.threads[-1]

    @property
    def wait(self) -> Wait | None:
        """What the main thread waits in; where it only waits for backward, what the backward thread waits in.

        faulthandler marks the thread that asked for the stacks as current, so any thread may be the one at work.
        """
        wait = waits_in(self.main.fact.frames) if self.main is not None else None
        named = self.main is not None and self.main.fact.living
        if awaits_others(wait) and wait is not None and not wait.vague:
            return wait
        if named and wait is not None and not (wait.vague or wait.kind is WaitKind.DEVICE):
            return wait
        inside = (
            w for e in self.threads if awaits_others(w := waits_in(e.fact.frames)) and w is not None and not w.vague
        )
        return next(inside, wait)


def of_a_crash(seen: EvidenceSet) -> bool:
    """Whether the stacks belong to a crash, or we took them from a live job: other rules read those."""
    return any(seen.all(kind) for kind in (FatalSignal, NativeAbort, CoreDump, ProcessSeen))


def processes(seen: EvidenceSet) -> list[Process]:
    found: dict[tuple[str, int | None], list[Process]] = {}
    for stack in sorted(
        (e for e in seen.all(StackDump) if e.fact.pid is None), key=lambda e: (e.origin.source, e.origin.line or 0)
    ):
        of = found.setdefault((stack.origin.source, stack.who), [Process()])
        if stack.fact.thread == "MainThread" and of[-1].threads:
            of.append(Process())
        of[-1].threads.append(stack)
    return [process for group in found.values() for process in group]
