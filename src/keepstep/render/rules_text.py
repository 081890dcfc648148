# SPDX-License-Identifier: Apache-2.0
"""A rule's own documentation, taken apart: the same text for the terminal and for the pages."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

from keepstep.model.finding import Severity, Standing
from keepstep.model.rule import Rule

STANDINGS = {
    Standing.MECHANISM: "a mechanism: explains what follows it",
    Standing.EXCEPTION: "the program's own failure",
    Standing.SYMPTOM: "a symptom: named only when nothing else explains it",
    Standing.GUESS: "a fallback: asked only when no other rule found anything fatal",
}
SEVERITIES = {
    Severity.FATAL: "fatal: ends the run",
    Severity.WARNING: "a warning: the run can go on",
    Severity.NOTE: "a note",
}


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    body: str


def summary(rule: Rule) -> str:
    """The first sentence of a rule, whole, on one line."""
    return " ".join(inspect.cleandoc(rule.doc).split("\n\n")[0].split()) or rule.name


def sections(rule: Rule) -> tuple[Section, ...]:
    """The text under each ``## `` heading; text between the summary and the first heading has none."""
    _, _, rest = inspect.cleandoc(rule.doc).partition("\n\n")
    parts = re.split(r"^## +(.+)$", rest, flags=re.MULTILINE)
    found = [Section("", parts[0].strip())] if parts[0].strip() else []
    found += [Section(h.strip(), b.strip()) for h, b in zip(parts[1::2], parts[2::2], strict=True)]
    return tuple(found)


def wrapped(body: str, width: int, indent: str = "") -> list[str]:
    """Paragraphs filled to a width; list items hang, indented and fenced blocks stay as they are, without the fence."""
    lines: list[str] = []
    for number, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            lines += ["", *(f"{indent}{line}".rstrip() for line in part.splitlines()), ""]
        elif part.strip():
            lines += _filled(part.strip("\n"), width, indent)
    while lines[-1:] == [""]:
        lines.pop()
    return lines[1:] if lines[:1] == [""] else lines


def _filled(body: str, width: int, indent: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", body):
        if lines:
            lines.append("")
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            lines += [indent + line for line in paragraph.splitlines()]
            continue
        for item in re.split(r"\n(?=[-*] |\d+\. )", paragraph):
            hang = re.match(r"(?:[-*]|\d+\.) +", item)
            lines += textwrap.wrap(
                " ".join(item.split()),
                width,
                initial_indent=indent,
                subsequent_indent=indent + " " * (hang.end() if hang else 0),
                break_on_hyphens=False,
                break_long_words=False,
            )
    return lines
