# SPDX-License-Identifier: Apache-2.0
"""An expression as it is written, cut out of its file."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.parse.code.unit import Span

LONGEST_TEXT = 120
LONGEST_TABLE = 500
"""Of a dictionary: settings such as TF_CONFIG are read as they are written."""


def cut(lines: Sequence[bytes], span: Span, is_long: bool = False) -> str:
    """The text in one line."""
    first, column, last, end = span[0] - 1, span[1], span[2] - 1, span[3]
    if first >= len(lines):
        return ""
    longest, most_lines = LONGEST_TEXT, 6
    if is_long:
        longest, most_lines = LONGEST_TABLE, LONGEST_TABLE // 10
    if first == last:
        return lines[first][column:end][:longest].decode("utf-8", "replace")
    pieces = [lines[first][column:], *lines[first + 1 : min(last, first + most_lines)]]
    if last < first + most_lines:
        pieces.append(lines[last][:end])
    return b" ".join(piece.strip() for piece in pieces)[:longest].decode("utf-8", "replace")
