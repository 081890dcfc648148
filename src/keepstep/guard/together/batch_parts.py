# SPDX-License-Identifier: Apache-2.0
"""A batch taken in parts: the same rows of everything in it that has rows. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any


def rows_of(batch: Any) -> int | None:
    """How many rows a batch has: those of the first tensor or array in it, or of a list without any."""
    if (own := _own_rows(batch)) is not None:
        return own
    inside = list(batch.values()) if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else []
    found = next((rows for each in inside if (rows := rows_of(each)) is not None), None)
    return len(batch) if found is None and isinstance(batch, list) and batch else found


def parts_of(batch: Any, count: int) -> Iterator[tuple[Any, float]]:
    """At most ``count`` parts of nearly the same size, each with its share of the rows."""
    rows = rows_of(batch)
    if rows is None or count < 2:
        yield batch, 1.0
        return
    bounds = sorted({rows * number // count for number in range(count + 1)})
    for begin, end in itertools.pairwise(bounds):
        yield _cut(batch, rows, begin, end), (end - begin) / rows


def _cut(thing: Any, rows: int, begin: int, end: int) -> Any:
    if (own := _own_rows(thing)) is not None:
        return thing[begin:end] if own == rows else thing
    if isinstance(thing, Mapping):
        inside = {name: _cut(each, rows, begin, end) for name, each in thing.items()}
        return inside if type(thing) is dict else _same_type(thing, inside)
    if isinstance(thing, tuple):
        cut = [_cut(each, rows, begin, end) for each in thing]
        return type(thing)(*cut) if hasattr(thing, "_fields") else tuple(cut)
    if isinstance(thing, list):
        if len(thing) == rows and rows_of(thing) == rows and all(rows_of(each) is None for each in thing):
            return thing[begin:end]
        return [_cut(each, rows, begin, end) for each in thing]
    return thing


def _same_type(thing: Any, inside: dict[Any, Any]) -> Any:
    try:
        return type(thing)(inside)
    except Exception:  # a class of its own with other arguments
        return inside


def _own_rows(thing: Any) -> int | None:
    shape = getattr(thing, "shape", None)
    try:
        return int(shape[0]) if shape is not None and len(shape) else None
    except (TypeError, ValueError):  # unknown, as in a traced function
        return None
