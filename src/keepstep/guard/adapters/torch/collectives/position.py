# SPDX-License-Identifier: Apache-2.0
"""Where this rank is: its groups' sequence numbers, the line of the script, and the collectives that it has issued."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from keepstep.base.wording import called
from keepstep.guard.adapters.torch.collectives import recorder
from keepstep.guard.adapters.torch.collectives.recorder import Recorded
from keepstep.guard.adapters.torch.compare_collectives import BACKWARD, COLLECTIVE, FORWARD, WAITS, Op, RankWord
from keepstep.guard.adapters.tracebacks import OWN
from keepstep.guard.record.thread_stack import calls
from keepstep.signals.collective_history import TrailEntry

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.issued_collective import IssuedCollective
    from keepstep.guard.adapters.torch.torch_state import TorchState

MOST_GROUPS = 16
MOST_OPS = 16
READ_S = 0.4
"""Without progress for this long and two usual steps, read the flight recorder: it blocks Python for milliseconds."""
BUFFERS = tuple(
    """
    _sync_buffers _sync_module_buffers _distributed_broadcast_coalesced _sync_params_and_buffers _sync_module_states
    """.split()
)
"""DDP's functions that broadcast something other than gradients."""


class ProcessGroup(NamedTuple):
    members: tuple[int, ...]
    default: bool
    axis: str
    """Its description, which groups along one axis of a mesh share."""


class Position:
    """Asked by the guard's thread."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self.restart()

    def restart(self) -> None:
        self._cpu = (0, 0)
        self.idle = False
        """Whether the training's thread hardly used the processor between the last two looks."""
        self._recorded: tuple[dict[str, int], dict[str, Recorded]] = ({}, {})

    def look(self) -> None:
        self.idle = self._is_idle()

    def word(self, sequences: dict[str, int], still: float, usual: float) -> RankWord:
        state = self._state
        doing, line = self.where()
        known = state.issued
        ops: dict[str, tuple[Op, ...]] = {}
        for name in list(known)[:MOST_GROUPS]:
            ops[name] = tuple(
                Op(each.number, each.sequence, each.shaped.key, each.shaped.words, each.running, each.failed)
                for each in list(known[name])[-MOST_OPS:]
            )
        return RankWord(
            still_s=round(still, 2),
            idle=self.idle,
            steps=self._session.steps,
            phase=self._session.phase_now,
            doing=doing,
            line=line,
            sequences=sequences,
            ops=ops,
            ends=tuple(state.ends)[-16:],
            batches=state.loaders.length,
            turns=state.loaders.turns,
            trails={name: each.issued for name, each in self.recorded(sequences).items()}
            if still >= max(READ_S, 2 * usual)
            else {},
        )

    def recorded(self, sequences: dict[str, int]) -> dict[str, Recorded]:
        """All that was issued, from torch's own record, with the script's lines; read once per standstill."""
        if self._recorded[0] != sequences and not self._session.is_off("flight recorder"):
            found: dict[str, Recorded] = {}
            with self._session.part("flight recorder"):
                found = {
                    name: each._replace(issued=self._with_lines(name, each.issued))
                    for name, each in recorder.read(self._state).items()
                    if name in sequences
                }
            self._recorded = (dict(sequences), found)
        return self._recorded[1]

    @property
    def waits(self) -> bool:
        """Whether the training's thread waits for other ranks."""
        return self.idle and self.where()[0] in WAITS

    def _with_lines(self, group: str, trail: tuple[TrailEntry, ...]) -> tuple[TrailEntry, ...]:
        own: dict[int, IssuedCollective] = {}
        for each in list(self._state.issued.get(group, ())):
            own.update(dict.fromkeys(range(each.sequence, each.last + 1), each))
        return tuple(
            each._replace(words=own[each.sequence].shaped.words, line=own[each.sequence].line)
            if each.sequence in own
            else each
            for each in trail
        )

    def sequences(self) -> dict[str, int] | None:
        """The groups' own numbers, the default group's first; None: there is no world."""
        state = self._state
        with state.lock:
            if state.closed:
                return None
            default = state.default_group()
            if default is None:
                return None
            found = {default.group_name: state.sequence(default)}
            for group, name in list(state.c10d._world.pg_names.items())[:MOST_GROUPS]:
                if group is not default:
                    found[name] = state.sequence(group)
            return found

    def groups(self) -> dict[str, ProcessGroup]:
        state = self._state
        with state.lock:
            default = state.default_group()
            if state.closed or default is None:
                return {}
            return {
                name: ProcessGroup(
                    tuple(int(rank) for rank in state.c10d.get_process_group_ranks(group)),
                    group is default,
                    _axis(group),
                )
                for group, name in list(state.c10d._world.pg_names.items())[:MOST_GROUPS]
            }

    def is_first_of_a_group(self) -> bool:
        rank = self._state.rank()
        return any(len(each.members) > 1 and min(each.members) == rank for each in self.groups().values())

    def is_in_a_group_of_others(self) -> bool:
        """Whether a group of this rank does not begin with rank 0."""
        return any(len(each.members) > 1 and min(each.members) for each in self.groups().values())

    def _is_idle(self) -> bool:
        """Whether the training's thread has hardly used the processor since the last look."""
        try:
            cpu = time.clock_gettime_ns(time.pthread_getcpuclockid(self._state.thread))
        except (OSError, AttributeError, OverflowError):
            return False
        now = time.monotonic_ns()
        before, then = self._cpu
        self._cpu = (cpu, now)
        return cpu - before < (now - then) * 0.1

    def where(self) -> tuple[str, str]:
        """What the training's thread does, and the line of the script it is at."""
        doing, line = "", ""
        for path, number, function in calls(self._state.thread):
            if path.startswith(self._state.folder):
                doing = _doing(path, function) or doing
            elif not path.startswith(OWN) and not path.startswith("<"):
                line = f"{os.path.basename(path)}:{number}, in {called(function)}"
                doing = doing or "elsewhere"
                if sys.prefix not in path and not path.startswith(os.path.dirname(os.__file__)):
                    break
        return doing, line


def _axis(group: object) -> str:
    found = getattr(group, "group_desc", "")
    return found[:80] if isinstance(found, str) and found != "undefined" else ""


def _doing(path: str, name: str) -> str:
    if path.endswith("distributed_c10d.py"):
        return COLLECTIVE
    if name == "_engine_run_backward":
        return BACKWARD
    if name in BUFFERS:
        return FORWARD
    return "input" if path.endswith("dataloader.py") else ""
