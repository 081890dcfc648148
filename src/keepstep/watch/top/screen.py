# SPDX-License-Identifier: Apache-2.0
"""One screen about a run: what is wrong first, then the ranks that matter. Pure: lines of text, never too wide."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keepstep.base.visible import visible
from keepstep.base.wording import count, duration, size
from keepstep.watch.past import WORDS, WORST, Cell, Grid, Point
from keepstep.watch.run_view import HostView, Problem, RankView, RunView

BOLD, RED, YELLOW, GREEN, DIM = "1", "1;31", "33", "32", "2"
LETTERS = {
    Cell.UNKNOWN: " ", Cell.START: "s", Cell.COMPILE: "c", Cell.INPUT: "i", Cell.COMPUTE: "=", Cell.CHECKPOINT: "k",
    Cell.EVALUATION: "e", Cell.END: "-", Cell.RETRY: "r", Cell.STUCK: "!", Cell.GONE: "#",
}  # fmt: skip
"""Letters, because colours are not seen by everybody and not shown everywhere."""
BARS = "▁▂▃▄▅▆▇█"
STRIP, _BEFORE_STRIP = 24, 58
FRESH_S = 3.0
_LABEL = 9


@dataclass(frozen=True)
class Look:
    """How to draw."""

    width: int = 80
    height: int = 24
    colour: bool = False
    plain: bool = False
    """Whether the terminal shows ASCII only."""
    live: bool = True
    """Whether it is drawn again and again."""


def screen(view: RunView, grid: Grid, steps: Sequence[Point], look: Look) -> list[str]:
    """At most ``look.height`` lines of at most ``look.width`` columns, apart from colours."""
    head = [*_head(view, look), *_wrong(view, look)]
    tail = [*_progress(view, steps, look)]
    last = [_ink(_fit("q quits" if look.live else f"more: keepstep why {view.folder}", look), DIM, look)]
    room = look.height - len(head) - len(tail) - len(last)
    lines = [*head[: look.height - 1], *tail[: max(0, look.height - 1 - len(head))]]
    if room >= 3:
        lines += _table(view, grid, look, room)
    return [*lines, *last][: look.height]


def _head(view: RunView, look: Look) -> Iterator[str]:
    took = duration(max(0.0, view.at - view.began))
    status = f" with status {view.status}" if view.status else ""
    how = f"{view.state}{status} · {count(view.world, 'rank')} · {'for' if view.alive else 'after'} {took}"
    yield _ink(_fit(f"{view.name} · {how}", look), BOLD, look)
    if view.command:
        yield _ink(_fit(view.command, look), DIM, look)


def _wrong(view: RunView, look: Look) -> Iterator[str]:
    if not view.problems:
        for line in _without_problems(view):
            yield _ink(_fit(line, look), GREEN if view.verdict == "healthy" else BOLD, look)
        if view.attempts and view.attempts[-1].decided:
            yield from _labelled("decided", view.attempts[-1].decided, look, 2)
        for said in view.said[-3:]:
            yield from _labelled("note", said, look, 2)
        return
    first, *others = view.problems
    roots = [each for each in others if each.role in ("initiating", "contributing")]
    yield ""
    for line in textwrap.wrap(visible(first.title), look.width - 3)[:2]:
        yield _ink(_fit(f"!! {line}", look), RED if first.severity == "fatal" else YELLOW, look)
    yield from _labelled("who", f"{first.who}{_since(first, view)}", look, 1)
    yield from _labelled("cause", f"{first.cause} ({first.sure})", look, 1)
    yield from _labelled("because", first.because, look, 2)
    if first.cost:
        yield from _labelled("cost", first.cost, look, 1)
    yield from _labelled("decided", first.decided or ("nothing yet" if view.alive else ""), look, 2)
    for do, command in first.fixes[:1]:
        yield from _labelled("fix", f"{do}{f': {command}' if command else ''}", look, 2)
    for each in roots[:1]:
        where = f"attempt {each.attempt}: " if len(view.attempts) > 1 else ""
        yield from _labelled("also", f"{where}{each.title}", look, 1)
    rest = len(others) - len(roots[:1])
    if rest > 0:
        yield from _labelled("", f"and {count(rest, 'more finding')}, most of it fallout", look, 1)


def _without_problems(view: RunView) -> Iterator[str]:
    yield ""
    if view.alive:
        yield "nothing wrong was found so far"
    elif view.state == "finished":
        yield "it finished, and nothing wrong was found"
    else:
        yield f"it {'was killed' if view.state == 'killed' else view.state}, and no cause was found"


def _since(first: Problem, view: RunView) -> str:
    if first.since is None:
        return ""
    at = time.strftime("%H:%M:%S", time.localtime(first.since))
    ago = duration(max(0.0, view.at - first.since))
    return f", since {at} ({ago} {'ago' if view.alive else 'before the end'})"


def _progress(view: RunView, steps: Sequence[Point], look: Look) -> Iterator[str]:
    yield ""
    again = len(view.attempts) - 1
    parts = [f"step {view.steps:,}"]
    if view.step_s is not None:
        parts.append(f"{_short(view.step_s)} per step {_spark(steps, look)}")
    if view.goodput is not None:
        parts.append(f"{view.goodput:.0%} productive")
    if view.left_s is not None:
        parts.append(f"{duration(view.left_s)} left")
    parts.append(count(again, "restart") if again > 0 else "no restart")
    states = [each.state for each in view.ranks]
    counted = [f"{states.count(state)} {state}" for state in ("gone", "silent") if state in states]
    yield _fit(" · ".join([*parts, *counted]), look)
    if view.hosts:
        yield _fit(" · ".join(_host(view.hosts[0], len(view.hosts) - 1, view)), look)


def _host(each: HostView, others: int, view: RunView) -> Iterator[str]:
    """The one that matters most."""
    seen = f" ({duration(each.age_s)} ago)" if view.alive and each.age_s > FRESH_S else ""
    yield f"{each.host}{seen}"
    full = f", full in {duration(each.full_in_s)}" if each.full_in_s is not None else ""
    shares = (("memory", each.memory, full), ("processors", each.cpu, ""), ("disk", each.disk, ""))
    device = "TPU" if each.tpus else "GPU"
    for name, share, more in (*shares, (device, each.gpu_busy, ""), (f"{device} memory", each.gpu_memory, "")):
        if share is not None:
            yield f"{name} {share:.0%}{more}"
    if others:
        yield f"and {count(others, 'more host')}"


def _table(view: RunView, grid: Grid, look: Look, room: int) -> Iterator[str]:
    if not view.ranks:
        yield _ink(_fit("no black box was found: the guard is off, or the ranks have not begun", look), DIM, look)
        return
    strip = max(0, min(STRIP, look.width - _BEFORE_STRIP))
    named = f"{'rank':>6} {'state':6} {'doing':12} {'step':>7} {'wait':>5} {'memory':>8} {'age':>6}"
    yield _ink(_fit(named, look), DIM, look)
    rows = dict(zip(grid.ranks, grid.rows, strict=True))
    shown = view.ranks[: room - 2]
    drawn = [rows.get(each.rank, b"")[-strip:] if strip else b"" for each in shown]
    for each, cells in zip(shown, drawn, strict=True):
        yield _row(each, cells, look, "now" if view.alive else "end")
    rest = len(view.ranks) - len(shown)
    seen = {Cell(min(cell & 15, 10)) for cells in drawn for cell in cells} - {Cell.UNKNOWN}
    words = [f"and {count(rest, 'more rank')}"] if rest else []
    words += [f"{LETTERS[cell]} {WORDS[cell]}" for cell in WORST if cell in seen]
    yield _ink(_fit("  ".join(words), look), DIM, look)


def _row(each: RankView, cells: bytes, look: Look, fresh: str) -> str:
    wait = "" if each.wait is None else f"{each.wait:.0%}"
    memory = "" if each.memory_bytes is None else size(each.memory_bytes)
    drawn = "".join(LETTERS[Cell(min(cell & 15, 10))] for cell in cells)
    mark = ">" if each.blamed else " "
    text = (
        f"{mark}{each.rank:5} {each.state:6} {each.phase[:12]:12} {each.steps:7} {wait:>5} {memory:>8} "
        f"{fresh if each.age_s < FRESH_S else duration(each.age_s):>6}  {drawn}"
    )
    ink = RED if each.blamed or each.state == "gone" else YELLOW if each.state == "silent" else ""
    return _ink(_fit(text.rstrip(), look), ink, look)


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1.0 else f"{seconds:.2f} s"


def _spark(points: Sequence[Point], look: Look) -> str:
    """The worst step of each piece of time."""
    if look.plain or len(points) < 2:
        return ""
    low, high = min(each.low for each in points), max(each.high for each in points)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[int((each.high - low) * scale)] for each in points)


def _labelled(label: str, text: str, look: Look, most: int) -> Iterator[str]:
    lines = textwrap.wrap(visible(text), look.width - _LABEL - 1, break_on_hyphens=False)
    cut = len(lines) > most
    for number, line in enumerate(lines[:most]):
        shown = f"{line[: look.width - _LABEL - 5]} ..." if cut and number == most - 1 else line
        yield _fit(f" {label if not number else '':{_LABEL - 1}} {shown}", look)


def _fit(text: str, look: Look) -> str:
    text = visible(text).replace("\n", " ")
    if look.plain:
        text = text.replace("·", "-").encode("ascii", "replace").decode()
    return text if len(text) <= look.width else f"{text[: look.width - 3]}..."


def _ink(text: str, code: str, look: Look) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if look.colour and code and text else text
