# SPDX-License-Identifier: Apache-2.0
"""Tables of the docs, from rows of the code: ``python -m tools.row_tables`` puts them into their pages."""

from __future__ import annotations

import re
from pathlib import Path

from keepstep.base.launchers import LAUNCHERS
from keepstep.check.data.formats import FORMATS

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(?<=<!-- table: made by `make docs` -->\n).*?(?=\n<!-- end of table -->)", re.S)


def formats() -> str:
    """What each data format can reveal."""
    cells = [(each.written or each.name, each.checked, each.flipped_bit) for each in FORMATS.values()]
    return _table(("format", "checked", "a flipped bit in the payload"), cells)


def launchers() -> str:
    """The variables of each launcher; those that only one part of keepstep needs are left out."""
    cells = [
        (each.name, *(_names(names) for names in (each.rank, each.size, each.local_rank, each.meeting, each.job)))
        for each in LAUNCHERS
    ]
    heads = ("launcher", "rank", "size", "local rank", "where the ranks meet", "job")
    return _table(heads, [row for row in cells if any(row[1:])])


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [" | ".join(cells) for cells in (heads, *rows)]
    lines.insert(1, "---|" * (len(heads) - 1) + "---")
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


PAGES = {DOCS / "check-data.md": formats, DOCS / "launchers" / "index.md": launchers}


def current(page: Path) -> str:
    """A page with its table as the rows say it now."""
    return BLOCK.sub(lambda _: PAGES[page](), page.read_text("utf-8"))


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(current(each), "utf-8")
