# SPDX-License-Identifier: Apache-2.0
"""What came of the guests, for the terminal and for docs/guests.md."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.base.visible import visible
from keepstep_lab.guests.catalogue import GUESTS
from keepstep_lab.guests.guest import Way
from keepstep_lab.guests.judge import Result
from keepstep_lab.guests.seen import Seen


def row(result: Result) -> str:
    """One line of the terminal's table."""
    mark = "skipped" if result.skipped else "ok" if result.right else "WRONG"
    return f"{mark:8} {_name(result):36} {result.way:8} {result.seconds:6.1f} s  {said(result)}"


def said(result: Result) -> str:
    """What was wrong, or what keepstep said."""
    if result.skipped:
        return result.skipped
    parts = [*result.wrong] or [result.said] if result.fault else [*result.wrong]
    if not result.comparable:
        parts.append("losses vary from run to run without keepstep too")
    return "; ".join(part for part in parts if part)


def totals(results: Sequence[Result]) -> str:
    """How many runs with keepstep were right; one without it is only what they are compared with, and reported where it
    failed."""
    judged = [each for each in results if not each.skipped and each.way != Way.PLAIN.value]
    parts = []
    for kind, chosen in (("healthy", [r for r in judged if not r.fault]), ("broken", [r for r in judged if r.fault])):
        if chosen:
            parts.append(f"{kind} guests right {sum(r.right for r in chosen)} of {len(chosen)}")
    failed = sum(bool(each.wrong) for each in results if each.way == Way.PLAIN.value)
    parts += [f"failed without keepstep too {failed}"] if failed else []
    skipped = sum(bool(each.skipped) for each in results)
    return "; ".join([*parts, *([f"skipped {skipped}"] if skipped else [])]) or "nothing was run"


def markdown(results: Sequence[Result], made: str) -> str:
    """The page of the docs; ``made``: a sentence on how it came about."""
    lines = [
        "# Guests",
        "",
        "Other people's kinds of programs, run unmodified with two ranks on one machine, without keepstep and with it.",
        "",
    ]
    lines += [f"{made} {totals(results).capitalize()}.", ""]
    lines += _healthy([each for each in results if not each.fault])
    lines += _broken([each for each in results if each.fault])
    return visible("\n".join(lines)) + "\n"


def _healthy(results: Sequence[Result]) -> list[str]:
    names = list(dict.fromkeys(each.guest for each in results))
    if not names:
        return []
    ways = [way for way in Way if way is not Way.PLAIN]
    lines = [
        "## Healthy",
        "",
        (
            "A run is ok when it ends with status 0, keepstep has nothing to say, `keepstep why` says healthy, "
            "the losses are"
        ),
        "those of a run without keepstep to the last digit, and no process or file stays behind.",
        "",
    ]
    lines += ["| guest | " + " | ".join(way.words for way in ways) + " |", "|---|" + "---|" * len(ways)]
    for name in names:
        mine = {each.way: each for each in results if each.guest == name}
        lines.append(
            f"| {name} | " + " | ".join(_cell(mine.get(way.value), way in GUESTS[name].ways) for way in ways) + " |"
        )
    lines += ["", "What the guard saw (of rank 0, and of the others where they differ):", ""]
    lines += [
        "| guest | | steps | batches | model | programs | collectives | checkpoints | evaluations |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        best = next((each for each in results if each.guest == name and each.seen), None)
        if best is not None:
            lines.append(f"| {name} | {GUESTS[name].note} | {_seen(best.seen)} |")
    return [*lines, ""]


def _cell(result: Result | None, applies: bool) -> str:
    if result is None:
        return "not run" if applies else "does not apply"
    if result.skipped:
        return "skipped"
    if result.right:
        return "ok" if result.comparable else "ok; losses vary without keepstep too"
    return f"wrong: {_escaped(result.wrong[0])}"


def _seen(ranks: Sequence[Seen]) -> str:
    def column(name: str) -> str:
        values = [getattr(each, name) for each in ranks]
        words = [("yes" if value else "no") if isinstance(value, bool) else str(value) for value in values]
        return words[0] if len(set(words)) == 1 else ", ".join(words)

    return " | ".join(
        column(name) for name in ("steps", "batches", "model", "programs", "collectives", "checkpoints", "evaluations")
    )


def _broken(results: Sequence[Result]) -> list[str]:
    if not results:
        return []
    lines = [
        "## Broken",
        "",
        (
            "Struck from outside, while the program itself is unchanged. A run is ok when `keepstep why` names "
            "the cause and the rank, and"
        ),
        "`keepstep run` brought it back or ended it as the fault asks for.",
        "",
        "| guest | fault | way | | said |",
        "|---|---|---|---|---|",
    ]
    for each in results:
        mark = "skipped" if each.skipped else "ok" if each.right else "wrong"
        lines.append(f"| {each.guest} | {each.fault} | {each.way} | {mark} | {_escaped(said(each))} |")
    return [*lines, ""]


def _name(result: Result) -> str:
    return f"{result.guest} + {result.fault}" if result.fault else result.guest


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
