# SPDX-License-Identifier: Apache-2.0
"""Python objects that ranks send each other through torch.distributed: what comes out when ranks are out of step.

``broadcast_object_list`` and its kin (of fairseq, Detectron2, mmcv, DETR) send a size, then bytes. A rank that is in
another collective takes other bytes for them: they cannot be unpickled, or are a size that no tensor can have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.block import block

LINES_BELOW = 8
_NOT_AN_OBJECT = lazy_pattern(
    r"(?:^|[\s:])(?:EOFError\b|(?:_?pickle\.)?UnpicklingError\b|UnicodeDecodeError\b|OverflowError: "
    r"|IndexError: pop from empty list|KeyError: '?b?['\"]?\\x|ValueError: (?:unsupported pickle protocol|could not convert string|insecure string))"
)
_NOT_A_SIZE = lazy_pattern(
    r"Trying to create tensor with negative dimension|negative dimension|Storage size calculation overflowed|numel: integer multiplication overflow"
    r"|Tried to allocate (?:more than 1EB|\d{6,} ?GiB)|can't allocate memory: you tried to allocate \d{15,} bytes"
    r"|not enough memory: you tried to allocate \d{15,} bytes|overflow when unpacking long|start \(\d+\) \+ length"
)


def _unread(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    for number, line in enumerate(lines):
        if _NOT_AN_OBJECT.search(line):
            yield CollectiveMismatch(what="an object that one rank sent and another could not read")
            return
        if number >= LINES_BELOW:
            return


def _unsized(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    for number, line in enumerate(lines):
        if _NOT_A_SIZE.search(line):
            yield CollectiveMismatch(what="the size of an object that one rank sent")
            return
        if number >= LINES_BELOW:
            return


BLOCKS = (
    block(
        r"in _tensor_to_object\b|\b_unpickler\(io\.BytesIO\(buf\)\)\.load\(\)|pickle\.loads\((?:buffer\)|bytes\(out_buffer\[|recv\[)",
        _unread,
    ),
    block(
        r"in (?:broadcast|all_gather|gather|scatter|recv)_object(?:_list)?\b|torch\.sum\(object_sizes_tensor\)|\.resize_\(max_object_size\)",
        _unsized,
    ),
)
