# SPDX-License-Identifier: Apache-2.0
"""Cases of the tables: a text as a tool prints it, and the fact it states, or none. They are in ``cases/WHO.toml``.

``python -m tests.parse.table_cases tools/cuda`` lists the signatures of these tables that have no case yet.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import keepstep.parse
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.bounded import narrowed
from keepstep.parse.scan.knowledge import Knowledge, build, tables
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.signature import Signature, derived

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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


@cache
def cases() -> dict[str, tuple[Case, ...]]:
    """By file. The near misses of a file are in its list ``nothing``."""
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text("utf-8"))
        found[path.stem] = (*map(Case, data.get("nothing", ())), *(Case(**each) for each in data["case"]))
    return found


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


def signatures() -> Iterator[tuple[str, Signature]]:
    """With the table that has it, as ``cuda/errors``."""
    for info in pkgutil.walk_packages(keepstep.parse.__path__, "keepstep.parse."):
        module = importlib.import_module(info.name)
        for each in getattr(module, "SIGNATURES", ()):
            yield "/".join(info.name.split(".")[2:]), each


def without_a_case() -> Iterator[tuple[str, Signature]]:
    """A row that only says that a text states nothing needs one, too."""
    texts = [case.text for all in cases().values() for case in all]
    found = knowledge().finder
    read: set[int] = set()
    for text in texts:
        for anchor, _ in found.find(
            f"{text}\n{' '.join(text.split(chr(10)))}".encode()
        ):  # as it stands, and as the scan joins it
            read |= {
                id(each)
                for each in knowledge().signatures[anchor]
                if id(each) not in read and each.pattern.search(narrowed(text))
            }
    return ((table, each) for table, each in signatures() if id(each) not in read)


def main() -> None:
    wanted = sys.argv[1:] or [""]
    missing = list(without_a_case())
    patterns = {each.expression: pattern for pattern, each in derived.items()}
    for table, each in missing:
        if any(table.startswith(start) for start in wanted):
            fact = next(
                (fact for text in _texts(patterns[each.expression]) if (fact := each.read(text)) is not None), None
            )
            print(f"{table}  {type(fact).__name__ if fact else '?'} {_set(fact)}\n    {patterns[each.expression]}")


def _texts(pattern: str) -> list[str]:
    from tests.parse.samples import samples

    return samples(pattern)


def _set(fact: Fact | None) -> dict[str, Any]:
    if fact is None:
        return {}
    return {
        f.name: plain(v) for f in dataclasses.fields(fact) if (v := getattr(fact, f.name)) not in (f.default, None, ())
    }


if __name__ == "__main__":
    main()
