# SPDX-License-Identifier: Apache-2.0
"""How many batches and steps this rank has had: plain numbers, counted by the hooks, compared by the guard's thread."""

from __future__ import annotations

from typing import Any


class Mark:
    """What is known about one dataset iterator."""

    __slots__ = ("batches", "shared", "sizes", "trained")

    def __init__(self, sizes: list[tuple[str, tuple[int | None, ...]]], batches: int | None, shared: bool) -> None:
        self.sizes = sizes
        """Dtype and shape of each part of its elements, None where a size may vary."""
        self.batches = batches
        """How many it will give, if the pipeline says so; -1: without end."""
        self.shared = shared
        """Its workers ask each other at every batch whether any has one left: that is a collective, too."""
        self.trained = 0
        """How many of its batches were trained on."""


class EpochCounts:
    """Steps that all ranks take together, by epoch."""

    def __init__(self) -> None:
        self.steps = 0
        self.epoch = 0
        self.epoch_from = 0
        self.ended: list[int] = []
        """The number of steps of each epoch that is over."""
        self.stated = False
        self.told_epochs = 0
        self.next: dict[int, int] = {}
        """For each peer, the epoch whose count is awaited."""
        self.told: set[Any] = set()

    @property
    def in_epoch(self) -> int:
        return self.steps - self.epoch_from

    def end_epoch(self) -> None:
        """Does nothing if no step was taken since the last one."""
        if self.in_epoch > 0:
            self.ended.append(self.in_epoch)
            self.epoch += 1
            self.epoch_from = self.steps
