# SPDX-License-Identifier: Apache-2.0
"""What is known of a checkpoint. One row per state; everything else asks the row."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """In a word, in words, and what follows: a good one may be resumed from, a bad one must not be loaded. Of one that
    is neither, only the user knows."""

    VERIFIED = "as saved", "every byte is as it was saved", "good"
    UNRECORDED = "no record", "not all of it was recorded when it was saved; its format shows no damage", "good"
    CHANGED = "changed", "it was written again after it was recorded, or it is damaged", "unclear"
    SUSPECT = "suspect", "its numbers may be wrong", "bad"
    PARTIAL = "partial", "it lacks a file that the checkpoint before it has", "unclear"
    UNREADABLE = "unreadable", "it could not be read", "unclear"
    INCOMPLETE = "incomplete", "a part of it is missing", "bad"
    DAMAGED = "DAMAGED", "it is not what was saved", "bad"

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def words(self) -> str:
        return self.value[1]

    @property
    def said(self) -> str:
        """For "the checkpoint ___"."""
        return f"{'was' if self is State.CHANGED else 'is'} {self.word.lower()}"

    @property
    def is_good(self) -> bool:
        return str(self.value[2]) == "good"

    @property
    def is_bad(self) -> bool:
        return str(self.value[2]) == "bad"
