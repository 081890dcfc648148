# SPDX-License-Identifier: Apache-2.0
"""The order in which one epoch feeds its records, without those in quarantine."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable

from keepstep.feed.permutation import Permutation, key_of


class Quarantine:
    """Records that are never fed. Needs memory for these alone."""

    __slots__ = ("_before", "records", "skipped")

    def __init__(self, records: int, skip: Iterable[int]) -> None:
        self.records = records
        self.skipped = tuple(sorted(set(skip)))
        if self.skipped and not 0 <= self.skipped[0] <= self.skipped[-1] < records:
            outside = self.skipped[0] if self.skipped[0] < 0 else self.skipped[-1]
            raise ValueError(f"skip names record {outside}, but the records are 0 to {records - 1}")
        self._before = [record - place for place, record in enumerate(self.skipped)]

    @property
    def left(self) -> int:
        """How many records are fed."""
        return self.records - len(self.skipped)

    def record(self, place: int) -> int:
        """The record at a place among those that are fed."""
        return place + bisect_right(self._before, place)

    @property
    def digest(self) -> str:
        """What identifies the quarantine in a saved state."""
        return hashlib.sha256(",".join(map(str, self.skipped)).encode()).hexdigest()[:16]


class Order:
    """The records of one epoch, in order. ``order[place]`` is a record number."""

    __slots__ = ("_permutation", "_quarantine")

    def __init__(self, quarantine: Quarantine, seed: int, epoch: int, shuffle: bool) -> None:
        self._quarantine = quarantine
        self._permutation = Permutation(quarantine.left, key_of(seed, epoch)) if shuffle else None

    def __getitem__(self, place: int) -> int:
        return self._quarantine.record(place if self._permutation is None else self._permutation[place])
