# SPDX-License-Identifier: Apache-2.0
"""The log of the dry run: which storages were born and died, in order, what each is for, and who made it."""

from __future__ import annotations

import os
import sys
from typing import Any

NAMED_FROM_BYTES = 1 << 20
"""Storages from this size on carry the line that made them."""
MOST_FRAMES = 200
OURS = os.path.dirname(os.path.abspath(__file__))


class StorageLog:
    """Births and deaths. A storage is a number, in the order of birth."""

    def __init__(self, of_the_user: tuple[str, ...]) -> None:
        self.events: list[tuple[int, int]] = []
        """(number, bytes) for a birth, (number, -bytes) for a death; (-1, step) after an optimizer's step."""
        self.kinds: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self.sizes: list[int] = []
        self.live = self.peak = 0
        """Bytes, now and at most since the script last asked to forget the most."""
        self.guesses: dict[str, str] = {}
        """What the script asked that fakes cannot answer, with the first line that asked."""
        self.scratch = 0
        """What a convolution's library may take for a moment: at most about what it reads and writes."""
        self.autocast = False
        """The script computes in mixed precision."""
        self.batch: dict[str, Any] = {}
        """How many records a batch has (``size``), and who says so (``by``): an option, or the loader."""
        self.lengths: dict[str, int] = {}
        """By the field of a batch, empty if it has no name: how long its longest record of whole numbers is."""
        self.loaders: list[dict[str, Any]] = []
        """What each loader that gave a batch was asked for, and the bytes of its largest batch."""
        self.loaders_end = False
        """Passes over a loader end now; those that begin later give a few batches."""
        self.lengths_differ = False
        """Steps do the same with batches of other sizes."""
        self.given: list[tuple[int, int]] = []
        """Each batch that a loader gave: after how many steps of optimizers, and its size."""
        self.ahead: tuple[int, list[int]] | None = None
        """After how many it was looked which batches come next, and their sizes."""
        self.marks = 0
        """Steps of optimizers."""
        self.host_live = self.host_peak = 0
        """Bytes of the host's tensors; small ones are not counted."""
        self._of_the_user = of_the_user

    def born(self, size: int, kind: str) -> int:
        number = len(self.sizes)
        self.sizes.append(size)
        self.events.append((number, size))
        self.kinds[number] = kind
        self.live += size
        self.peak = max(self.peak, self.live)
        if size >= NAMED_FROM_BYTES:
            self.places[number] = self.place()
        return number

    def died(self, number: int) -> None:
        self.events.append((number, -self.sizes[number]))
        self.live -= self.sizes[number]

    def stepped(self, step: int) -> None:
        self.events.append((-1, step))
        self.marks += 1

    def guessed(self, what: str) -> None:
        if what not in self.guesses:
            self.guesses[what] = self.place()

    def place(self, frame: Any = None) -> str:
        """The innermost line of the user's own files that is being run; in this frame, if it is given."""
        frame = frame or sys._getframe(1)
        for _ in range(MOST_FRAMES):
            if frame is None:
                break
            if self.is_users(frame.f_code.co_filename):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def is_users(self, file: str) -> bool:
        """Whether this is a file of the user's, and neither a library's nor ours."""
        return file.startswith(self._of_the_user) and "site-packages" not in file and not file.startswith(OURS)

    def as_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "kinds": self.kinds,
            "places": self.places,
            "guesses": self.guesses,
            "scratch": self.scratch,
            "autocast": self.autocast,
            "batch": self.batch,
            "lengths": self.lengths,
            "loaders": self.loaders,
            "given": self.given,
            "ahead": self.ahead,
            "host_tensors": self.host_peak,
        }
