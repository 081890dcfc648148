# SPDX-License-Identifier: Apache-2.0
"""Lines of a log that no part of the job said: source code that Python shows, and keepstep's own words. Pure.

Python prints the source line below each frame of a traceback and below a warning. What a string in it says has not
happened. What keepstep prints while a job runs, and the reports it ends with, retell what the job said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from keepstep.base.lazy_pattern import lazy_pattern

OF_A_REPORT = b"keepstep rules show "
"""A line of every report on a failure."""
DEEPEST = 40
"""How many lines one statement of a source takes at most: Python shows all of them."""
LONGEST_REPORT = 120
BELOW_A_WARNING = 2
"""How far Python indents the source below a warning; below a frame, at least as far."""
_INDENT = " \t|│"
_FRAME = lazy_pattern(r'(?:\(Python\) )?File "[^"]{1,400}", line \d+')
_WARNING = lazy_pattern(r"\S{1,300}\.py:\d+: \w{0,80}Warning: \S")
_DRAWN = lazy_pattern(r"^[│| ]{0,4}(?:❱ *)?\d{1,6} │ ")
"""How rich shows source: with its line number, and a mark at the one that ran."""
_OWN = lazy_pattern(r"^[^a-z\n]{0,60}keepstep: ")
_REPORT = lazy_pattern(r"^[A-Z]{3}\d{3} (?:fatal|warning|note) ")
_IN_REPORT = lazy_pattern(r"^(?: {2}\S| {9,}\S|what followed from it$|This is a hypothesis|\s*$)")
_ESCAPED = lazy_pattern(
    r'(File \\*"[^"\\]{1,300}\\*", line \d+(?:, in [\w.<>]{1,200})?\\n {4,})((?:[^\\]|\\(?!n)){1,400})'
)

Above = Callable[[], Iterator[str]]
"""The lines of the same writer above one, the nearest first."""


def is_source(text: str, above: Above) -> bool:
    """Whether a line is source that Python shows below a frame or a warning: all between is more indented than that."""
    if _DRAWN.match(text):
        return True
    depth = _depth(text)
    if depth < BELOW_A_WARNING:
        return False
    if depth == BELOW_A_WARNING and _WARNING.match(next(above(), "")):
        return True
    for line in islice(above(), DEEPEST):
        here = _depth(line)
        if _FRAME.match(line, here):
            return here < depth
        depth = min(depth, here)
        if depth < BELOW_A_WARNING or here == len(line):
            return False
    return False


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(_INDENT))


def is_ours(text: str, above: Above, reports: bool) -> bool:
    """Whether keepstep wrote a line. ``reports``: whether there is a report of it around."""
    if _OWN.match(text) or (reports and _REPORT.match(text)):
        return True
    if not reports or not _IN_REPORT.match(text):
        return False
    for line in islice(above(), LONGEST_REPORT):
        if _REPORT.match(line):
            return True
        if not _IN_REPORT.match(line):
            return False
    return False


def without_source(text: str) -> str:
    r"""A traceback in one line, as JSON logs write it (``\n`` for the ends of lines), without its source lines."""
    return _ESCAPED.sub(r"\1", text) if "\\n" in text and "File " in text else text
