# SPDX-License-Identifier: Apache-2.0
"""What a restart does to the work so far, by what was seen of checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.base.wording import duration
from keepstep.supervise.decide.situation import Situation

WORTH_A_WORD_S = 60.0
"""Losing less work than this is not worth mentioning."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What a restart does to the work so far."""

    words: str | None = None
    work_s: float = 0.0
    overwrites: bool = False
    """There are checkpoints, and this script was seen not to load them."""

    def forbids(self, most_s: float | None, *, hangs: bool) -> bool:
        """Whether it is too much to do unasked. What a crash has already lost, a restart does not lose."""
        return most_s is not None and self.work_s > most_s and (self.overwrites or hangs)


def lost_by_restart(now: Situation, before: Sequence[Situation]) -> Lost:
    """By what was seen of checkpoints; nothing if no guard could see them."""
    work = now.work_s
    if work is None or now.saved is None or now.resumed or any(each.resumed for each in before):
        return Lost()
    work = max([work, *(each.work_s or 0.0 for each in before)])
    if any(each.saved for each in before) and now.steps:
        words = (
            "this script was restarted beside its own checkpoints and loaded none: "
            "a restart begins at the first step and may overwrite them"
        )
        return Lost(words, work, overwrites=True)
    if not now.saved:
        words = f"no checkpoint was saved: a restart begins at the first step and loses {duration(work)} of training"
        return Lost(words if work > WORTH_A_WORD_S else None, work)
    if work <= WORTH_A_WORD_S:
        return Lost()
    words = "it is unknown whether this script resumes: it saved checkpoints, but was not seen to load any"
    return Lost(f"{words}; if it does not, the restart begins at the first step")
