# SPDX-License-Identifier: Apache-2.0
"""Blocks: messages that take several lines (a traceback, a crash report, a failure table).

A block begins where its pattern matches one logical line and is read from the lines of
the same writer that follow, so interleaved output of other ranks does not disturb it.
A table of them is the ``BLOCKS`` of a parse module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from keepstep.model.facts.base import Fact
from keepstep.parse.scan.signature import Signature, signature

Read = Callable[[re.Match[str], Iterator[str]], Iterable[Fact]]


@dataclass(frozen=True, slots=True)
class Block:
    """``read`` gets the match and the lines after it (bounded), and yields the facts."""

    begin: Signature
    read: Read
    inside_others: bool = True
    """Whether it may begin within a traceback that was read already."""


def block(pattern: str, read: Read, /, *, anchors: Iterable[str] = (), inside_others: bool = True) -> Block:
    """A row of a ``BLOCKS`` table."""
    return Block(signature(pattern, lambda match: None, anchors=anchors), read, inside_others)
