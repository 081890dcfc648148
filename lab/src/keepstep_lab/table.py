# SPDX-License-Identifier: Apache-2.0
"""The score as a table, for the terminal and for the docs."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.base.visible import visible
from keepstep_lab.judge import Outcome, Status
from keepstep_lab.scenario import FRAMEWORKS

MARKS = {
    Status.RIGHT: "ok",
    Status.WRONG: "WRONG",
    Status.LATER: "later",
    Status.UNPROVEN: "unproven",
    Status.SKIPPED: "skipped",
}


def row(outcome: Outcome) -> str:
    """One line of the terminal's table."""
    took = f"{outcome.seconds:6.1f} s" if outcome.seconds is not None else " " * 8
    return f"{MARKS[outcome.status]:8} {outcome.scenario:32} {took}  {said(outcome)}"


def said(outcome: Outcome) -> str:
    """What keepstep said, or why nothing was judged."""
    if outcome.status in (Status.UNPROVEN, Status.SKIPPED):
        return outcome.why_not
    words = outcome.said or "nothing wrong"
    if outcome.ranks:
        words += f", rank {', '.join(map(str, outcome.ranks))}"
    if outcome.right_cause is False:
        words += f" (is: {outcome.expected or 'healthy'})"
    if outcome.right_rank is False:
        words += " (wrong rank)"
    if outcome.false:
        words += f" (false: {', '.join(outcome.false)})"
    if outcome.status is Status.LATER:
        words += f"; {outcome.why_not}"
    return words


def totals(outcomes: Sequence[Outcome]) -> str:
    """The sums: right causes and ranks of what was judged, false findings, what could not be judged."""
    judged = [o for o in outcomes if o.status in (Status.RIGHT, Status.WRONG)]
    failing = [o for o in judged if o.expected is not None]
    healthy = [o for o in judged if o.expected is None]
    ranked = [o for o in failing if o.right_rank is not None]
    seconds = sorted(o.seconds for o in failing if o.seconds is not None)
    parts = [
        f"right cause {_share([o for o in failing if o.right_cause], failing)}",
        f"right rank {_share([o for o in ranked if o.right_rank], ranked)}",
        f"healthy and silent {_share([o for o in healthy if o.status is Status.RIGHT], healthy)}",
        f"false findings {sum(len(o.false) for o in judged)}",
    ]
    if seconds:
        parts.append(f"fault to verdict: median {seconds[len(seconds) // 2]:.1f} s, at most {seconds[-1]:.1f} s")
    for status in (Status.LATER, Status.UNPROVEN, Status.SKIPPED):
        if number := sum(o.status is status for o in outcomes):
            parts.append(f"{MARKS[status]} {number}")
    return "; ".join(parts)


def markdown(outcomes: Sequence[Outcome], command: str) -> str:
    """The page of the docs."""
    lines = [
        "# What the lab says about us",
        "",
        f"Made by `{command}`: real trainings on this kind of machine, really broken.",
        "",
    ]
    lines += [f"{totals(outcomes)}.", ""]
    for framework in FRAMEWORKS:
        chosen = [o for o in outcomes if o.framework == framework]
        if not chosen:
            continue
        lines += [
            f"## {framework}",
            "",
            "| scenario | is | said | rank | fault to verdict | |",
            "|---|---|---|---|---|---|",
        ]
        for o in chosen:
            took = f"{o.seconds:.1f} s" if o.seconds is not None else ""
            rank = {True: "right", False: "wrong", None: ""}[o.right_rank]
            lines.append(
                f"| {o.scenario} | {o.expected or 'healthy'} | {said(o)} | {rank} | {took} | {MARKS[o.status]} |"
            )
        lines.append("")
    return visible("\n".join(lines))


def _share(some: Sequence[object], of: Sequence[object]) -> str:
    return f"{len(some)} of {len(of)}" + (f" ({100 * len(some) / len(of):.0f} %)" if of else "")
