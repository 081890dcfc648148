# SPDX-License-Identifier: Apache-2.0
"""How many planted secrets are redacted, and what else is: the table of docs/redaction.md.

python -m tools.redaction_score                  measure
python -m tools.redaction_score --write          put the table into the page
python -m tools.redaction_score --logs FOLDER    show what is redacted in logs of your own
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.redact import redact
from tests.planted_secrets import KINDS, leaks, planted

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "redaction.md"
RECORDINGS = ROOT / "tests" / "recordings"
SEEDS = 20
BLOCK = re.compile(r"(?<=<!-- table: made by `make docs` -->\n).*?(?=\n<!-- end of table -->)", re.S)


@dataclass(frozen=True)
class Score:
    family: str
    kinds: int
    leaking: tuple[str, ...]
    """Kinds of which at least one of the planted secrets could be read afterwards."""


def scores(seeds: int = SEEDS) -> list[Score]:
    return [
        Score(
            family,
            len(kinds),
            tuple(kind for kind in kinds if any(leaking(family, kind, seed) for seed in range(seeds))),
        )
        for family, kinds in KINDS.items()
    ]


def leaking(family: str, kind: str, seed: int) -> str | None:
    """What is left of a planted secret, if it can still be read."""
    text, hidden = planted(family, kind, seed)
    clean = redact(text)
    return clean if any(leaks(each, clean) for each in hidden) else None


def changed_lines(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Lines of logs that redaction changes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            clean = redact(text)
            if clean != text:
                yield from ((path, a, b) for a, b in zip(text.split("\n"), clean.split("\n"), strict=True) if a != b)


def table(found: list[Score]) -> str:
    rows = [
        f"| {each.family} | {each.kinds} | {each.kinds - len(each.leaking)} | {', '.join(each.leaking)} |"
        for each in found
    ]
    kinds, lost = sum(each.kinds for each in found), sum(len(each.leaking) for each in found)
    return "\n".join(
        [
            "| family | kinds planted | redacted | leaking |",
            "|---|---|---|---|",
            *rows,
            f"| **all** | **{kinds}** | **{kinds - lost}** | |",
        ]
    )


def kinds_list() -> str:
    return "\n".join(f"- **{family}**: {'; '.join(kinds)}." for family, kinds in KINDS.items())


def page() -> str:
    """The page with the table as it is now."""
    block = f"{table(scores())}\n\n{kinds_list()}"
    text, times = BLOCK.subn(lambda _: block, PAGE.read_text("utf-8"))
    if times != 1:
        raise SystemExit(f"{PAGE.name} has no place for the table")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how well secrets are redacted.")
    parser.add_argument("--write", action="store_true", help="put the table into docs/redaction.md")
    parser.add_argument(
        "--logs", type=Path, default=RECORDINGS, help="show what is redacted in the files of this folder"
    )
    asked = parser.parse_args()
    if asked.write:
        PAGE.write_text(page(), "utf-8")
    print(table(scores()))
    changed = list(changed_lines(asked.logs))
    for path, before, after in changed:
        print(f"{path}\n  - {before[:300]!r}\n  + {after[:300]!r}")
    print(f"{len(changed)} lines redacted in {asked.logs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
