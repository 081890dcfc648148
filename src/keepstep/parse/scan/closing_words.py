# SPDX-License-Identifier: Apache-2.0
"""Whether a program says that it has finished: by words that programs use for that, near the end of a stream. Pure.

A log that merely stops proves nothing, and neither does a progress bar at its end: ranks hang after their last step too.
"""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.base.lazy_pattern import lazy_pattern

NEAR_THE_END = 8
"""How many lines may follow: timers, summaries and goodbyes of loggers do."""

_WHOLE = r"training|train|fine-?tuning|pre-?training|run|job|script|program|experiment|benchmark|trial|main|everything|workflow"
_OVER = r"done|finished|complete|completed|succeeded|successful|over|ended normally|ended successfully"
_PATTERNS = tuple(
    map(
        lazy_pattern,
        (
            # "process 1: done", "[rank 0] Finished.", "All done!", "done in 31.2 s"
            r"(?i)(?:^|[:\]|>)-] {0,3}|\ball )(?:all )?(?:done|finished|completed?|success|bye|goodbye|exiting)"
            r"(?: (?:in|after) [\d.:,]+ ?[a-z]{0,12}| successfully| normally| cleanly)?\W{0,3}$",
            # "done on gpu-3", which names who finished; "exiting on signal 15" and "finished on step 3" say something else
            r"(?i)(?:^|[:\]|>)-] {0,3})(?:all )?(?:done|finished|completed) on"
            r" (?!(?:step|epoch|batch|iter\w*|shard|signal|sig\w*|error)\b)(?=\S{0,59}\d)[\w.-]{1,60}\W{0,3}$",
            # "training has finished", "Job 17 completed", "main() is over"
            rf"(?i)\b(?:{_WHOLE})\b(?:\(\))?[^.\n]{{0,30}}?\b(?:is |has |was |have |are )?(?:{_OVER})\b(?! (?:iteration|step|epoch|batch|shard)s?\b)",
            r"(?i)\b(?:done|finished|completed|exiting) (?:the |with |all |whole )?(?:training|run|job|script|program|experiment"
            r"|all (?:steps|epochs|iterations|ranks|workers|tasks))\b",
            r"(?i)\ball (?:\d+ )?(?:steps|epochs|iterations|ranks|workers|tasks|processes|tests) (?:are |have |were )?(?:done|finished|complete|completed|passed|ok)\b",
            r"(?i)\bexit(?:ed|ing|s)?(?: with)?(?: (?:status|code|exit code|return code))?[ =:]{1,3}0\b",
            r"(?i)\b(?:total|overall|whole) (?:training |run |wall |elapsed )?(?:time|runtime|duration)\b",
            r"(?i)^\W*final (?:test |train |validation |val |eval )?(?:accuracy|acc|loss|metrics?|results?|score|perplexity|model saved)\b",
            r"(?i)\b(?:saved|saving|wrote) (?:the )?final (?:model|checkpoint|weights)\b",
        ),
    )
)
_NOT_THE_END = lazy_pattern(
    r"(?i)\b(?:not|never|until|before|when|once|if|while|wait|waiting|will|should|to be|expected)\b[^.\n]{0,40}"
    r"\b(?:done|finish|complet|over|exit|succe)"
)


def closing_line(lines: Sequence[str]) -> str | None:
    """The last of these lines, a stream's last ones, in which its program says that it has finished."""
    for line in reversed(lines[-NEAR_THE_END:]):
        text = line.strip()[:400]
        if any(each.search(text) for each in _PATTERNS) and not _NOT_THE_END.search(text):
            return text
    return None
