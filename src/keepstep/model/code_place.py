# SPDX-License-Identifier: Apache-2.0
"""A place in a program, as a finding shows it: the finding's words say what rules knew about it."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace(Fact):
    """File and line are those of the evidence. Columns count characters from 1."""

    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    """The column after its last character."""
    lines: tuple[int, ...] = ()
    """Further lines of the file that decide: that of a condition, that on which the others leave."""
    path: tuple[tuple[str, int, str], ...] = ()
    """How it leads to the collective: file, line and text of each step."""
    cell: tuple[str, int] | None = None
    """In a notebook: its cell, and the line in it."""
