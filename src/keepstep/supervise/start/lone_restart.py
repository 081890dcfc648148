# SPDX-License-Identifier: Apache-2.0
"""Parameter servers: a lost worker is restarted alone, at its own address, while the coordinator continues.

TensorFlow's coordinator gives the lost worker's steps to the others, and takes the worker back when it answers at the
same address again. That holds for workers only: a parameter server holds variables, and the coordinator the program.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.safe_files import make_private
from keepstep.base.wording import count, duration
from keepstep.signals.box_files import keep
from keepstep.supervise.decide.hang_patience import backoff_s
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.started_process import StartedProcess

MOST = 3
"""How often one worker may come back without having served for long in between."""
LONG_S = 600.0
"""A worker that has served this long has a full budget again."""


@dataclass
class _Losses:
    """How often one worker was lost lately."""

    count: int = 0
    started_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Comeback:
    """A worker that is to be started again."""

    member: StartedProcess
    times: int
    due: float
    words: str
    """The decision, to be printed before it is done."""


class LoneRestarts:
    """Which lost members of an attempt come back alone, and how often they did."""

    def __init__(self, *, servers: int) -> None:
        """``servers``: how many parameter servers the training has, on all nodes."""
        self._has_servers = servers > 0
        self._losses: dict[int, _Losses] = {}
        self.given_up: str | None = None
        """Why the last lost worker is not started again."""

    def is_for(self, member: StartedProcess) -> bool:
        return self._has_servers and member.role == "worker" and member.rank is not None

    def decide(self, member: StartedProcess, exit_: Exit, now: float) -> Comeback | None:
        """What to do about a lost worker; None if it has been lost too often."""
        assert member.rank is not None
        known = self._losses.setdefault(member.rank, _Losses())
        if known.count and now - known.started_at > LONG_S:
            known.count = 0
        name = f"worker {member.index} (rank {member.rank})"
        if known.count >= MOST:
            self.given_up = f"{name} was restarted {known.count} times and failed each time, now with {exit_.words}"
            return None
        wait = backoff_s(known.count, 0.0)
        known.count += 1
        known.started_at = now + wait
        when = f"in {duration(wait)}" if wait else "now"
        left = MOST - known.count
        words = (
            f"decision: restart {name} alone {when}: it ended with {exit_.words}, and the coordinator can continue "
            f"without it until it is back ({count(left, 'more restart')} of this worker allowed)"
        )
        return Comeback(member=member, times=known.count, due=now + wait, words=words)


def put_aside(folder: Path, member: StartedProcess, pid: int, times: int) -> Path:
    """Move what the lost process left out of the attempt's folder: it is about a process that was replaced."""
    aside = folder.parent / "lost" / f"{folder.name}-{member.name}-{times}"
    with contextlib.suppress(OSError):
        make_private(aside)
        left = [folder / f"{member.name}.log", *(folder / "guard").glob(f"*-{pid}-*")]
        for path in left:
            keep(path)  # a box that lives in memory: its content goes along
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                path.rename(aside / path.name)
    return aside
