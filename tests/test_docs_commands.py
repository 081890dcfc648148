# SPDX-License-Identifier: Apache-2.0
"""Commands in pages and in the README exist: their verbs, and every option of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from keepstep.cli.parser import build

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md" and path.parent.name != "rules"
]
VERBS = "why|check|run|runs|top|watch|save|profile|export|shrink|rules|lab|completion|manual"
COMMAND = re.compile(rf"(?:^|[\s(`$|])keepstep ((?:{VERBS})\b[^`\n#|]*)", re.M)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


@cache
def whole_parser() -> argparse.ArgumentParser:
    return build()


def parser_of(words: list[str]) -> argparse.ArgumentParser:
    """The parser of a verb, and of what is asked of it: `lab guests run`."""
    parser = whole_parser()
    joined = " ".join(words[:2])
    words = [joined, *words[2:]] if joined in subparsers(parser) else words
    for word in words:
        below = subparsers(parser)
        if word not in below:
            return parser
        parser = below[word]
    return parser


def commands(text: str) -> Iterator[str]:
    """In blocks of a shell and in code within a sentence, not in prose."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.M | re.S):
        yield from (match[1] for match in COMMAND.finditer(block.replace("\\\n", " ")))
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        yield from (match[1] for match in COMMAND.finditer(f"`{code}`"))


def test_every_option_that_a_page_shows_exists() -> None:
    wrong = []
    shown = [(page, command) for page in PAGES for command in commands(page.read_text("utf-8"))]
    for page, command in shown:
        words = re.split(r" --(?: |$)", command)[0].split()
        known = parser_of(words)._option_string_actions
        unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
        wrong += [f"{page.relative_to(ROOT)}: keepstep {command}: {word}" for word in unknown]
    assert not wrong


def test_the_page_on_run_has_every_option_and_no_other() -> None:
    table = (ROOT / "docs" / "run.md").read_text("utf-8").partition("\n## Options\n")[2]
    shown = {word for row in re.findall(r"^\|([^|]+)\|", table, re.M) for word in re.findall(r"`(--[a-z-]+)", row)}
    known = {word for word in parser_of(["run"])._option_string_actions if word.startswith("--")}
    assert shown == known - {"--help"}


def test_commands_are_found_and_wrong_ones_are_noticed() -> None:
    text = "so `keepstep why logs/ --html FILE` and\n```sh\nsrun keepstep check --script a.py   # --nothing\n```\n"
    assert [each.split()[0] for each in commands(text)] == ["check", "why"]
    assert "--html" in parser_of(["why", "logs/"])._option_string_actions
    assert "--way" in parser_of(["lab", "guests", "run"])._option_string_actions
    assert "--htlm" not in parser_of(["why"])._option_string_actions
