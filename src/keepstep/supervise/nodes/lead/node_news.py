# SPDX-License-Identifier: Apache-2.0
"""What the leader learns of a node beside its membership: something happened there, or the engine takes it away."""

from __future__ import annotations

from dataclasses import dataclass

from keepstep.supervise.nodes import messages as said


@dataclass(frozen=True, slots=True)
class Told:
    """What a node reports that must be decided upon."""

    node: int
    happened: said.Happened


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that the engine takes away soon: its ranks live, and can still save their work."""

    node: int
    by: str
    """The engine."""
    why: str
    """What it does, in words."""
