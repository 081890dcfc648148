# SPDX-License-Identifier: Apache-2.0
"""SLO010: steps became much slower in the middle of a run, and stayed so."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    PaceChanged,
    Severity,
    Standing,
    duration,
    lazy_pattern,
    rule,
    shorten,
)

_KINDS = (
    (
        lazy_pattern(
            r"(?i)compil|retrac|\btrac(?:e|ing)\b|lowering|graph (?:hash|break|capture)|cache miss"
            r"|collective (?:batch_)?all_?reduce"
        ),
        Cause.SLOW_RECOMPILATION,
    ),
    (
        lazy_pattern(r"(?i)\b(?:data|loader|input|prefetch\w*|fetch\w*|dataset|read(?:ing)?|queue)\b"),
        Cause.SLOW_INPUT_BOUND,
    ),
    (lazy_pattern(r"(?i)network|nccl|socket|retransmi|reconnect|bandwidth|\bib\b|rdma|link"), Cause.SLOW_NETWORK_BOUND),
)


@rule(
    id="SLO010",
    cause=Cause.SLOW_STRAGGLER,
    needs=(PaceChanged,),
    severity=Severity.WARNING,
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def became_slower(seen: EvidenceSet) -> Findings:
    """Steps became many times slower in the middle of the run, and stayed so until its end.

    ## What it looks like
    Ninety steps take a second each; from then on every step takes thirty. Nothing fails.

    ## Why it happens
    Shapes that change and are compiled anew, an input that ran out of its cache, a link or a device that dropped to a
    lower speed, another job on the same host.

    ## How we know
    From the printed times of the steps, or from the clock. What the log says only since then hints at the reason.

    ## What to do
    Look at what changed at that step: the batch's shapes, the files that are read, the device's clocks, the link.

    ## When this is wrong
    The program does other work in these steps on purpose: a larger batch, a second phase of training.
    """
    changed = seen.all(PaceChanged)
    if not changed:
        return
    fact = changed[0].fact
    cause = next((cause for pattern, cause in _KINDS if pattern.search(fact.new)), None)
    where = f" from step {fact.step} on" if fact.step is not None else ""
    many = f"{fact.times} single steps" if fact.times is not None else "steps"
    when = "right above each of them, and of no other, the log says" if fact.times else "only since then the log says"
    yield Found(
        title=f"{many} took {fact.after_s / fact.before_s:.0f} times as long{'' if fact.times else where}: "
        f"{duration(fact.after_s)} instead of {duration(fact.before_s)}",
        because=f"{when}: {shorten(fact.new, 80)}" if fact.new else "the log does not say why",
        evidence=changed[:4],
        cause=cause,
        confidence=Confidence.HYPOTHESIS,
        fixes=(Fix(do="look at what changed at that step: shapes, files, the device's clocks, the link"),),
    )
