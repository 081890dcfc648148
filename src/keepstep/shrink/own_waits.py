# SPDX-License-Identifier: Apache-2.0
"""How long the program waits for other ranks before it gives up: trials wait less, and the result as long as ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from keepstep.shrink.program import Edits, Node, literal, name_called, own_parts, uid
from keepstep.shrink.search import Search

SECONDS = {"milliseconds": 0.001, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
ENOUGH_S = 3
"""For ranks that begin together, on a busy machine too."""
LONG_S, MOST_S = 4.0, 7200.0
"""What is longer becomes shorter, unless it is no number of seconds."""


def shorter_waits(search: Search) -> None:
    """Where the program itself gives up after a while, each trial takes that long."""
    if not search.patience_s:
        return
    found = tuple((node, literal(now)) for node, now in _waits(search))
    if found and search.same(replace(search.best, replaced=(*search.best.replaced, *found))):
        search.shortened = found


def with_own_waits(search: Search) -> Edits:
    """The best so far, as it would be without that. Nothing tries it but the last run."""
    replaced = tuple(pair for pair in search.best.replaced if pair not in search.shortened)
    return replace(search.best, replaced=replaced)


def _waits(search: Search) -> Iterator[tuple[Node, float]]:
    """Numbers that stand for seconds until something gives up, and what to say instead."""
    done = dict(search.best.replaced)
    for each in search.left():
        for call in own_parts(each):
            if not isinstance(call, ast.Call):
                continue
            of_time = name_called(call) == "timedelta"
            for keyword in call.keywords:
                place = uid(keyword.value)
                now = search.program.node(done.get(place, place))
                unit = SECONDS.get(keyword.arg or "") if of_time else 1.0 if keyword.arg == "timeout" else None
                value = now.value if isinstance(now, ast.Constant) else None
                if unit is not None and isinstance(value, (int, float)) and LONG_S < value * unit <= MOST_S:
                    yield place, ENOUGH_S if unit == 1.0 else ENOUGH_S / unit
