# SPDX-License-Identifier: Apache-2.0
"""What the user allows, and the decision: data, and the words in which a decision is announced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.wording import count, duration
from keepstep.model.finding import Fix
from keepstep.supervise.decide.remedy import Remedy, RemedyMode

MAX_LOST_WORK_S = 600.0
REFUSED = "the check found what would kill the run; nothing was started (use --no-check to start it anyway)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for."""

    max_attempts: int = 4
    """Attempts without progress in between; progress renews the budget."""
    remedy: RemedyMode = RemedyMode.SAFE
    suspected_wait_s: float | None = None
    """How long a suspected hang may last; None: by what a restart costs."""
    max_lost_work_s: float | None = MAX_LOST_WORK_S
    """No automatic restart if more work than this would be lost; None: restart whatever is lost."""
    restarts: bool = True
    """False for the user's own command: it restarts only on request (a launcher may restart by itself)."""


class Action(Enum):
    FINISH = "finish"
    """All is well."""
    END = "end"
    """End the run with the first failing rank's status."""
    RESTART = "restart"
    """End what is left of the attempt, wait ``wait_s``, start the next one."""
    GROW = "grow"
    """End the attempt, though nothing is wrong, and start the next one with more nodes."""
    SHRINK = "shrink"
    """The same with one rank fewer."""
    WAIT = "wait"
    """Report it, do nothing, and decide again after ``wait_s`` if nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    action: Action
    reason: str
    """In words, without a full stop at the end."""
    wait_s: float = 0.0
    remedies: tuple[Remedy, ...] = ()
    """To apply before the next attempt (without those already in force)."""
    ask: tuple[Remedy, ...] = ()
    """To ask for in the terminal (only with ``--remedy ask``); :meth:`accepted` says what follows from a yes."""
    advice: tuple[Fix, ...] = ()
    attempts_left: int = 0
    warning: str | None = None
    """What a restart may do to the work so far."""
    repeats: bool = False
    """Another attempt would end the same way on whatever machine it runs."""
    waits_for: str = ""
    """What kind of wait it is. The same kind again is no news."""

    @property
    def words(self) -> str:
        """What is printed before it is carried out: one line or a few."""
        if self.action is Action.RESTART:
            head = f"restart {f'in {duration(self.wait_s)}' if self.wait_s else 'now'}"
            tail = f" ({count(self.attempts_left, 'attempt')} left without progress)"
        else:
            head = {
                Action.END: "end the run",
                Action.WAIT: f"wait {duration(self.wait_s)}",
                Action.GROW: "start again, larger",
                Action.SHRINK: "start again, smaller",
                Action.FINISH: "finished",
            }[self.action]
            tail = ""
        lines = [f"decision: {head}: {self.reason}{tail}"]
        lines += [f"  note: {self.warning}"] if self.warning else []
        lines += [f"  remedy: {each.does}" for each in self.remedies]
        lines += [f"  could help, if you agree: {each.does}" for each in self.ask]
        lines += [f"  advice: {each.do}" + (f"  ({each.command})" if each.command else "") for each in self.advice]
        return "\n".join(lines)

    def accepted(self, remedies: Sequence[Remedy]) -> Decision:
        """The decision after the user said yes to some of ``ask``."""
        if not remedies:
            return replace(self, ask=())
        taken = (*self.remedies, *remedies)
        action = Action.RESTART if self.attempts_left > 0 else self.action
        return replace(
            self,
            action=action,
            remedies=taken,
            ask=(),
            reason=f"{self.reason}; with the change you accepted, it is worth another attempt",
        )
