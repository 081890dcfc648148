# SPDX-License-Identifier: Apache-2.0
"""Cases of the tables: a text as a tool prints it, and the fact it states, or none.

Those of a row of data stand in the row. Those of functions and blocks, and near misses, are in ``cases/WHO.toml``.
``python -m tests.parse.table_cases parse/tools/cuda`` lists the signatures of these modules that have no case yet.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import keepstep.knowledge
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.bounded import narrowed
from keepstep.parse.scan.knowledge import Knowledge, build
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.signature import Signature
from keepstep.parse.scan.tables import data_files, rows_of, tables

FOLDER = Path(__file__).with_name("cases")


@dataclass(frozen=True)
class Case:
    """``fact`` names the kind. Without it the text states nothing."""

    text: str
    fact: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    """The values to compare. A flag that is not named here must have its default."""
    only: tuple[str, ...] = ()
    """Where given: the text states nothing but facts of these kinds."""
    source: str = ""
    """Where the tool says it: a file of its source, an issue, a manual."""
    row: Signature | None = None
    """The row of data that has it."""


@cache
def cases() -> dict[str, tuple[Case, ...]]:
    """By who prints the texts. The near misses of a file are in its list ``nothing``."""
    found: defaultdict[str, list[Case]] = defaultdict(list)
    for path in sorted(FOLDER.glob("*.toml")):
        data = keepstep.knowledge.read_toml(str(path))
        found[path.stem] += [*map(Case, data.get("nothing", ())), *(Case(**each) for each in data.get("case", ()))]
    for file in data_files():
        mine = found[Path(file).parent.name]
        mine += map(Case, keepstep.knowledge.read_toml(file).get("nothing", ()))
        for row, said in rows_of(file):
            for each in said.get("cases", ()):
                fields = {**said.get("set", {}), **each.pop("fields", {})}
                mine.append(Case(fact=said["fact"], fields=fields, row=row, **each))
    return {who: tuple(mine) for who, mine in found.items()}


@cache
def knowledge() -> Knowledge:
    return build(*tables())


def facts_in(text: str) -> list[Fact]:
    """What a log of this text alone states."""
    return [sighting.fact for sighting in LogScan(knowledge()).scan([text.encode() + b"\n"])]


def agrees(fact: Fact, case: Case) -> bool:
    return type(fact).__name__ == case.fact and all(
        plain(getattr(fact, each.name)) == case.fields.get(each.name, each.default)
        for each in dataclasses.fields(fact)
        if each.name in case.fields or isinstance(each.default, bool)
    )


def plain(value: Any) -> Any:
    """As TOML has it."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return getattr(value, "value", value)


def without_a_case() -> Iterator[Signature]:
    """A row of data needs one of its own. A row that only says that a text states nothing needs one, too."""
    every = [case for mine in cases().values() for case in mine]
    own = {case.row.expression for case in every if case.row}
    found = knowledge().finder
    read: set[int] = set()
    for case in every:
        for anchor, _ in found.find(
            f"{case.text}\n{' '.join(case.text.split(chr(10)))}".encode()
        ):  # as it stands, and as the scan joins it
            read |= {
                id(each)
                for each in knowledge().signatures[anchor]
                if id(each) not in read and each.pattern.search(narrowed(case.text))
            }
    for each in tables().signatures:
        if id(each) not in read or (each.where.startswith("knowledge") and each.expression not in own):
            yield each


def main() -> None:
    wanted = sys.argv[1:] or [""]
    for each in without_a_case():
        if any(each.where.startswith(start) for start in wanted):
            print(f"{each.where}\n    {each.expression}")


if __name__ == "__main__":
    main()
