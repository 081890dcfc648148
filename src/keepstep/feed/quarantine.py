# SPDX-License-Identifier: Apache-2.0
"""The list of bad records that ``keepstep check data`` writes, as record numbers to skip."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.errors import UserError

SCHEMA = "keepstep.quarantine/1"
LARGEST = 256 << 20


def quarantined(listed: str | os.PathLike[str], files: Iterable[tuple[str, int]]) -> list[int]:
    """The numbers of the records to skip. ``files``: the names in the order in which they are read, and their records.

    A file of the list that is not among ``files`` is an error: its bad records would be fed without a word.
    """
    known = list(files)
    found: list[int] = []
    for entry in _entries(listed):
        name = str(entry.get("file", ""))
        place = _place(name, [each for each, _ in known])
        if place is None:
            raise UserError(
                f"{os.fspath(listed)} names {name}, which is not among the files to read",
                hint="give all files that were checked, or make the list again for those that are read",
            )
        start, records = sum(number for _, number in known[:place]), known[place][1]
        found += [start + record for record in _bad(entry, records)]
    return sorted(set(found))


def _entries(listed: str | os.PathLike[str]) -> list[dict[str, Any]]:
    try:
        with open_regular(os.fspath(listed)) as stream:
            content = foreign_json.loads(stream.read(LARGEST))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {os.fspath(listed)}: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or not isinstance(content.get("files"), list):
        raise UserError(f"{os.fspath(listed)} is no quarantine list ({SCHEMA})")
    return [each for each in content["files"] if isinstance(each, dict)]


def _place(name: str, names: Sequence[str]) -> int | None:
    """Which of the files is meant: the same path, else the only one of this base name."""
    matches: tuple[Callable[[str], str], ...] = (str, os.path.abspath, os.path.basename)
    for match in matches:
        places = [place for place, each in enumerate(names) if match(each) == match(name)]
        if len(places) == 1:
            return places[0]
    return None


def _bad(entry: dict[str, Any], records: int) -> Iterator[int]:
    if entry.get("whole_file"):
        yield from range(records)
        return
    numbers = entry.get("records")
    for number in numbers if isinstance(numbers, list) else ():
        if isinstance(number, int) and 0 <= number < records:
            yield number
    end = entry.get("ends_at_record")
    if isinstance(end, int) and end >= 0:
        yield from range(end, records)
