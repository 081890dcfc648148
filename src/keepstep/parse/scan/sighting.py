# SPDX-License-Identifier: Apache-2.0
"""What the scan of a log finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from keepstep.model.facts.base import Fact
from keepstep.parse.scan.lines.introduction import Introduction
from keepstep.parse.scan.lines.writer import Writer

QUOTE = 400
"""Characters of a line that a sighting keeps."""


class Sighting(NamedTuple):
    """A fact and where it was found. ``line`` counts from 1.

    ``later_s``: by how much it may be later than ``at``. A line without a time lies between the timed lines around it.
    """

    fact: Fact
    line: int
    writer: Writer
    at: float | None
    quote: str
    later_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Scanned:
    """One log after its scan."""

    name: str
    sightings: tuple[Sighting, ...]
    introduced: Introduction | None = None
    """The rank by which its only writer calls itself in the first lines."""
