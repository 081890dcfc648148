# SPDX-License-Identifier: Apache-2.0
"""Runs of record numbers: what a rank reads, without a list of every record.

A run is a ``range``. A stream is a tuple of runs, in the order in which they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Stream = tuple[range, ...]


def count(stream: Iterable[range]) -> int:
    """How many records a stream has."""
    return sum(len(run) for run in stream)


def every(stream: Stream, first: int, step: int) -> Stream:
    """Each ``step``-th record of a stream, beginning with number ``first``."""
    taken, skip = [], first
    for run in stream:
        part = run[skip::step]
        if part:
            taken.append(part)
        skip = (skip - len(run)) % step if skip < len(run) else skip - len(run)
    return tuple(taken)


def head(stream: Stream, records: int) -> Stream:
    """The first ``records`` records of a stream."""
    taken, left = [], records
    for run in stream:
        if left <= 0:
            break
        taken.append(run[:left])
        left -= len(run)
    return tuple(run for run in taken if run)


def between(stream: Stream, start: int, stop: int) -> Stream:
    """The records of a stream from number ``start`` to before number ``stop``."""
    taken, at = [], 0
    for run in stream:
        part = run[max(0, start - at) : max(0, stop - at)]
        if part:
            taken.append(part)
        at += len(run)
    return tuple(taken)


def whole_files(sizes: Sequence[int]) -> tuple[range, ...]:
    """The record numbers of each file, counted over all files in order."""
    found, at = [], 0
    for size in sizes:
        found.append(range(at, at + size))
        at += size
    return tuple(found)


def meets(run: range, start: int, stop: int) -> bool:
    """Whether a run has a record from ``start`` to before ``stop``."""
    first = run.start if run.start >= start else start + (run.start - start) % run.step
    return first < min(stop, run.stop)
