# SPDX-License-Identifier: Apache-2.0
"""A run as one file that opens without a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.watch.look import RunLook
from keepstep.watch.moment import RankMoments
from keepstep.watch.page.documents import moment_shown, past_document, view_document
from keepstep.watch.page.template import one_file
from keepstep.watch.run_view import RunView

MOST_RANKS, MOST_TIMES = 16, 127
"""Of so many ranks, those that matter, the file has what they showed at so many times."""
MOST_CHARACTERS = 1_300_000
"""Of all these moments: the file stays below two megabytes."""


def render_page(run: RunLook) -> str:
    """The page. Ranks that matter come with what their readings, logs and stacks say over the whole run."""
    view = run.see()
    past = past_document(run.past(), view)
    document = {"view": view_document(view), "past": past, **_moments(run, view, past["start"], past["end"])}
    return one_file(document, view.problems[0].title if view.problems else f"{view.state}: {view.name}")


def _moments(run: RunLook, view: RunView, start: float, end: float) -> dict[str, Any]:
    """By rank. Their texts are in one list, each once: neighbours in time show the same lines."""
    since = view.problems[0].since if view.problems else None
    first = view.at if since is None else min(view.at, since + 1.0)
    known: dict[tuple[int, int], RankMoments] = {}
    texts: dict[str, int] = {}
    found: dict[str, list[dict[str, Any]]] = {str(each.rank): [] for each in view.ranks[:MOST_RANKS]}
    size = 0

    def number(text: str) -> int:
        nonlocal size
        size += 8 if text in texts else len(text) + 12
        return texts.setdefault(text, len(texts))

    for at in (first, *_halving(start, end)):
        for rank in (each.rank for each in view.ranks[:MOST_RANKS]):
            key = rank, run.attempt_at(at)
            if key not in known:
                known[key] = RankMoments(run, *key)
            one = moment_shown(known[key].at(at))
            one["lines"] = [number(line) for line in one["lines"]]
            one["stacks"] = [[number(who), [number(frame) for frame in frames]] for who, frames in one["stacks"]]
            one["readings"] = [[number(name), number(value)] for name, value in one["readings"]]
            found[str(rank)].append(one)
        if size > MOST_CHARACTERS:
            break
    return {"moments": found, "texts": list(texts)}


def _halving(start: float, end: float) -> Iterator[float]:
    """Times that are spread evenly over the run, however many of them are taken."""
    parts = 2
    while parts <= MOST_TIMES + 1:
        for place in range(1, parts, 2):
            yield start + (end - start) * place / parts
        parts *= 2
