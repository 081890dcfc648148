# SPDX-License-Identifier: Apache-2.0
"""How far an attempt came, by everything seen of it. Pure."""

from __future__ import annotations

import itertools
import os
import re

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.guard import RankDoing
from keepstep.model.facts.training import CheckpointSaved, Phase, PhaseSeen, StepSeen
from keepstep.story.frameworks import frameworks_of

PATH = re.compile(r"(?<![^\s'\"=(),])[^\s'\"=(),]*(?:/[^\s'\"(),]+|\.(?:pt|pth|ckpt|npz|bin|safetensors|keras|h5)\b)")
MOST_PATHS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProgress:
    """Unknown parts are None."""

    steps: int | None = None
    """Training steps that the rank which got furthest did in this attempt; None without a guard."""
    shown_step: int | None = None
    """The largest step number that the training printed."""
    shown_every: int | None = None
    """How many steps lie between two printed numbers."""
    saved: bool | None = None
    """A checkpoint was saved in this attempt."""
    resumed: bool | None = None
    """It began by restoring a checkpoint."""
    restored_from: tuple[str, ...] = ()
    """Files or folders that it named when it restored a checkpoint, the last one first."""
    saved_in: tuple[str, ...] = ()
    """Folders with checkpoints that the guard recorded."""
    frameworks: frozenset[str] = frozenset()
    """Those that the evidence is about."""


def progress_of(seen: EvidenceSet) -> AttemptProgress:
    """What the evidence of one attempt says about its progress."""
    steps = [each.fact.steps for each in seen.all(RankDoing)]
    numbers: dict[tuple[str, str], list[int]] = {}
    for each in seen.all(StepSeen):
        if each.fact.step is not None:
            numbers.setdefault(each.origin.writer, []).append(each.fact.step)
    gaps = [
        later - earlier for shown in numbers.values() for earlier, later in itertools.pairwise(shown) if later > earlier
    ]
    phases = {each.fact.phase for each in seen.all(PhaseSeen)}
    return AttemptProgress(
        steps=max(steps, default=None),
        shown_step=max((max(shown) for shown in numbers.values()), default=None),
        shown_every=min(gaps, default=None),
        saved=True if Phase.SAVING in phases else None,
        resumed=True if Phase.RESTORING in phases else None,
        restored_from=_restored_from(seen),
        saved_in=_saved_in(seen),
        frameworks=seen.once(frameworks_of),
    )


def _saved_in(seen: EvidenceSet) -> tuple[str, ...]:
    folders = [os.path.dirname(each.fact.path) for each in seen.all(CheckpointSaved)]
    return tuple(dict.fromkeys(folders))[:MOST_PATHS]


def _restored_from(seen: EvidenceSet) -> tuple[str, ...]:
    quotes = [each.quote for each in seen.all(PhaseSeen) if each.fact.phase is Phase.RESTORING]
    paths = [word.rstrip(".,:;") for quote in reversed(quotes) for word in PATH.findall(quote)]
    return tuple(dict.fromkeys(paths))[:MOST_PATHS]
