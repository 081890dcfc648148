# SPDX-License-Identifier: Apache-2.0
"""What docs/words.md says about our English, as far as a machine can tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for path in (ROOT / "src/keepstep").rglob("*.py")
    if "lab/jobs" not in path.as_posix() and "guests/programs" not in path.as_posix()
)
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name not in ("words.md", "CHANGELOG.md")
]
BANNED = re.compile(
    r"""
      \b(is|are)\ told\b
    | \bso\ that\b
    | \b(speak|speaks)\ of\b
    | \b(be|is|are|was|were|been)\ struck\b | \bstruck\ ranks?\b
    | \bno\ table\ knows\b
    | \bnobody\ plays\b
    | \bcalled\ so\b
    | \bcannot\ be\ had\b
    | \b(in|out)side\ of\b
    | \bin\ the\ midst\b
    | \bnot\ of\ the\ framework\b
    | \bprocess\ a\ rank\b
    | \b(ms|s|seconds|times)\ a\ (step|rank|second|minute)\b
    | \bcannot\ be$
    | \bstands?\ still\b
    | \b[Ff]or\ so\ long\b | \bof\ no\ account\b | \bactor\ of\ Ray\b
    | ^[Mm]ostly\b | [,;:]\ mostly\b
    """,
    re.VERBOSE,
)


def read_by_people(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a source file that are sentences: docstrings and texts with a space, not patterns.

    Tables of messages hold the words of others: only their docstring is ours.
    """
    tree = ast.parse(path.read_text())
    if "parse/tools" in path.as_posix() or "last_resort" in path.as_posix():
        yield 1, ast.get_docstring(tree) or ""
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and "\\" not in node.value
        ):
            yield node.lineno, node.value


def test_no_phrase_is_one_that_nobody_would_say() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()!r} in {text[:90]!r}"
        for path in SOURCES
        for line, text in read_by_people(path)
        for match in BANNED.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_no_page_has_one_either() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()!r}" for path in PAGES for match in BANNED.finditer(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_the_readme_is_narrow() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    wide = [line for line in lines if len(line) > (100 if line.startswith("|") else 80)]
    assert not wide, wide
