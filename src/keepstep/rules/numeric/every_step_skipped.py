# SPDX-License-Identifier: Apache-2.0
"""NUM003: the loss scaler skips every step."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from keepstep.model.facts import NonFinite, StepsSkipped
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.numeric.nan_or_divergence import FIND_THE_FIRST_NAN

LOWEST = 1.0
"""A loss scale at which gradients that overflow are not finite by themselves: a scaler begins at 65536 or more."""
IN_A_ROW = 3
MANY_STEPS = 50
"""A scaler that begins at 2**32 skips its first 20 steps or so until it has found its scale."""
NEARLY_ALL = 0.9

_Skipped = list[Evidence[StepsSkipped]]


@rule(
    id="NUM003",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(StepsSkipped,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def every_step_skipped(seen: EvidenceSet) -> Findings:
    """Gradients overflow at every step, so the loss scaler skips it: the run continues and learns nothing.

    ## What it looks like
    `OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1`, again and again; Megatron's `number of
    skipped iterations: 10` on every line; `Gradient overflow. Skipping step` with ever smaller scales.

    ## Why it happens
    A weight or activation is already NaN or infinite, or a layer overflows in float16 whatever the scale.

    ## How we know
    The last steps that are reported were all skipped, at the smallest loss scale or over several whole intervals.

    ## What to do
    Go back to a checkpoint from before, find the first value that is not finite, and train in bfloat16.

    ## When this is wrong
    The first steps of a run are skipped until the scaler has found its scale; we do not count those.
    """
    if any(e.fact.fatal and not seen.survived(e) for e in seen.all(NonFinite)):
        return  # training stopped for it: NUM001 reports it
    streams: dict[tuple[str, str], _Skipped] = defaultdict(list)
    for each in seen.all(StepsSkipped):
        streams[each.origin.writer].append(each)
    for skipped in streams.values():
        stuck = _at_lowest(skipped) or _whole_intervals(skipped) or _of_all(skipped)
        if stuck:
            yield Found(
                title="every step was skipped because gradients overflowed: the run learns nothing",
                because="the loss scaler skipped all of the last steps, and a smaller scale did not help",
                evidence=tuple(stuck[-6:]),
                ranks=(),
                fixes=(
                    Fix(do="restart from a checkpoint from before the first skipped step"),
                    Fix(do="train in bfloat16 instead of float16", safety=Safety.CHANGES_RESULTS),
                    *FIND_THE_FIRST_NAN,
                ),
            )
            return


def _at_lowest(skipped: _Skipped) -> _Skipped:
    """The last overflows, if even the smallest scale did not help."""
    last = [e for e in skipped if e.fact.scale is not None][-IN_A_ROW:]
    return last if len(last) == IN_A_ROW and all((e.fact.scale or 0.0) <= LOWEST for e in last) else []


def _whole_intervals(skipped: _Skipped) -> _Skipped:
    """The last lines of a trainer that counts per interval, if all steps of each were skipped."""
    last = [e for e in skipped if e.fact.recent][-IN_A_ROW - 1 :]
    pairs = list(pairwise(last))
    whole = all(
        (after.fact.step or 0) > (before.fact.step or 0)
        and (after.fact.skipped or 0) >= (after.fact.step or 0) - (before.fact.step or 0)
        for before, after in pairs
    )
    return last if len(pairs) == IN_A_ROW and whole else []


def _of_all(skipped: _Skipped) -> _Skipped:
    """The last count of a trainer that counts from the start, if nearly all steps were skipped."""
    counts = [e for e in skipped if e.fact.skipped is not None and not e.fact.recent]
    step, count = (counts[-1].fact.step or 0, counts[-1].fact.skipped or 0) if counts else (0, 0)
    return counts[-1:] if step >= MANY_STEPS and count >= NEARLY_ALL * step else []
