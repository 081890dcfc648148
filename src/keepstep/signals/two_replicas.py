# SPDX-License-Identifier: Apache-2.0
"""Two replicas differ: which one is wrong, by what each found out when it made its next steps twice. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from keepstep.base.wording import count

BEYOND = 100.0
"""A number this many times larger than all others of its tensor, in one replica only, is out of its range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsAgain:
    """What one rank saw in some steps of its optimizer, for the tensors that differ."""

    why: str = ""
    """Why it could not repeat them; the rest is then empty."""
    steps: int = 0
    outside: int = 0
    """In so many steps the numbers were not those that the step before had left,"""
    unlike: int = 0
    """in so many a repeat of the step gave other bits than the step,"""
    far: int = 0
    """and in so many the result was far from that of the same step in double precision."""
    gradients: Mapping[str, str] = field(default_factory=dict)
    """Their fingerprints, by the number of the step."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the optimizer."""
    largest: tuple[float, float] = (0.0, 0.0)
    """The two largest magnitudes, in the tensor in which they are furthest from each other."""


@dataclass(frozen=True, slots=True)
class Which:
    """``rank`` is None where it is not established."""

    rank: int | None
    sure: bool
    words: str


def which(answers: Mapping[int, StepsAgain]) -> Which:
    """Of two ranks."""
    for rank, each in answers.items():
        if each.why:
            return Which(None, False, f"rank {rank} could not repeat a step: {each.why}")
    steps = count(min(each.steps for each in answers.values()), "step")
    kinds = (
        ("outside", "its numbers change between two steps of the optimizer, and those of the other rank do not"),
        ("unlike", "a repeat of the optimizer's step gave other bits than the step, and on the other rank the same"),
        ("far", "its optimizer's step is not what double precision gives for it, and that of the other rank is"),
    )
    for kind, words in kinds:
        odd = [rank for rank, each in answers.items() if getattr(each, kind)]
        if len(odd) == 1:
            return Which(odd[0], True, f"{words} ({getattr(answers[odd[0]], kind)} of {steps})")
    one, other = answers.values()
    if differing := sorted(key for key in one.settings if one.settings[key] != other.settings.get(key)):
        return Which(None, False, f"their optimizers differ in {', '.join(differing[:3])}")
    common = one.gradients.keys() & other.gradients.keys()
    if any(one.gradients[step] != other.gradients[step] for step in common):
        return Which(None, False, "their gradients differ after the exchange, so it or code of one rank is wrong")
    for rank, each in answers.items():
        (theirs,) = (answer.largest[0] for who, answer in answers.items() if who != rank)
        if _is_beyond(each.largest[0], max(each.largest[1], theirs)):
            words = f"it holds {each.largest[0]:.3g}, and all others of these numbers are at most "
            return Which(rank, False, f"{words}{max(each.largest[1], theirs):.3g} on both ranks")
    return Which(None, False, f"{steps} repeated alike on both: it happened once, or each time by too little to tell")


def _is_beyond(largest: float, rest: float) -> bool:
    return math.isfinite(rest) and rest > 0.0 and not largest <= BEYOND * rest
