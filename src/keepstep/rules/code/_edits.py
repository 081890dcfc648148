# SPDX-License-Identifier: Apache-2.0
"""Fixes of one line as changes of the text: each returns None where the line is not written in a way that it knows."""

from __future__ import annotations

import re

from keepstep.model.facts import Value
from keepstep.model.finding import Edit
from keepstep.rules.code._asking import Call, ProjectFacts

Span = tuple[int, int, int, int]
_LOOP = re.compile(r"[ \t]*for ([A-Za-z_]\w*) in [^#]*:[ \t]*(?:#.*)?")


def replaced(known: ProjectFacts, source: str, value: Value, text: str) -> Edit | None:
    """The expression written otherwise."""
    line, column, last, end = value.span
    return _edit(known, source, line, column, end, text) if line and line == last else None


def followed(known: ProjectFacts, source: str, value: Value, text: str) -> Edit | None:
    """The expression, which is a name or a call, with something after it: ``.detach()``."""
    _, _, last, end = value.span
    is_simple = re.fullmatch(r"[A-Za-z_][\w.]*(?:\(\))?", value.text) is not None
    return _edit(known, source, last, end, end, text) if last and is_simple else None


def with_argument(known: ProjectFacts, call: Call, text: str) -> Edit | None:
    """The call with one more argument at its end: ``sync_dist=True``."""
    _, _, last, end = call.fact.span
    before = known.line(call.origin.source, last)[: end - 1].rstrip()
    if not last or known.line(call.origin.source, last)[end - 1 : end] != b")" or not before:
        return None  # the bracket stands on a line of its own, or is another one
    if any(argument.name == "**" for argument in call.fact.arguments):
        return None
    glue = "" if before.endswith(b"(") else " " if before.endswith(b",") else ", "
    return _edit(known, call.origin.source, last, len(before), len(before), glue + text)


def first_in_loop(known: ProjectFacts, source: str, line: int, text: str) -> Edit | None:
    """A line at the start of the body of ``for NAME in ...:``; ``{}`` in it becomes the name."""
    header = _LOOP.fullmatch(known.line(source, line).decode("utf-8", "replace"))
    below = known.line(source, line + 1).decode("utf-8", "replace")
    indent = below[: len(below) - len(below.lstrip())]
    if header is None or not below.strip() or below.lstrip().startswith(("#", '"', "'")):
        return None
    if len(indent.expandtabs()) <= len(header[0]) - len(header[0].lstrip()):
        return None
    return _edit(known, source, line + 1, 0, 0, f"{indent}{text.format(header[1])}\n")


def _edit(known: ProjectFacts, source: str, line: int, column: int, end: int, text: str) -> Edit:
    """Python counts bytes from 0, an edit characters from 1."""
    there = known.line(source, line)
    first, last = (len(there[:at].decode("utf-8", "replace")) + 1 for at in (column, end))
    return Edit(source=source, line=line, column=first, end=last, text=text)
