# SPDX-License-Identifier: Apache-2.0
"""JSON lines: every line parsed. A line is named by its number and the byte it begins at."""

from __future__ import annotations

import json
from typing import Any

from keepstep.check.data.readers.lines import TOO_LONG, lines_of
from keepstep.check.data.readers.longest import Longest
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch

FIRST_RECORDS = 100
_TYPES = {str: "text", bool: "bool", int: "number", float: "number", list: "list", dict: "table", type(None): "null"}


def read(source: DataSource, asked: ReadRequest, packed: str = "") -> UnitRead:
    """All lines."""
    looked = UnitRead("jsonl", packed=packed, protected=packed in ("gz", "zst", "xz", "bz2"))
    known: dict[str, set[str]] = {}
    lengthy: list[str] = []
    longest = Longest()
    most = longest.most
    numbers = Numbers(asked)
    records = number = at = 0
    try:
        for line, begin, ended in lines_of(source.content_parts(packed)):
            number, at = number + 1, begin
            if line is TOO_LONG:
                looked.broken(Bad("corrupt", "the line is longer than any record", records, begin, line=number))
                records += 1
                continue
            text = line.strip()
            if not text:
                continue
            found, why = _parsed(text)
            if why:
                kind = "corrupt" if ended else "truncated"
                looked.broken(Bad(kind, why, records, begin, len(line), number))
            elif isinstance(found, dict):
                if records < FIRST_RECORDS:
                    _note(known, found)
                    lengthy = [name for name, types in known.items() if not types or types & {"text", "list"}]
                for name in lengthy:
                    value = found.get(name)
                    if (type(value) is str or type(value) is list) and len(value) > most.get(name, 0):
                        most[name] = len(value)
                if asked.values:
                    _values(numbers, records, found)
            records += 1
    except Damaged as error:
        kind = "truncated" if "missing" in str(error) else "corrupt"
        looked.broken(Bad(kind, f"unpacking failed: {error}", records, at))
    except TooMuch as error:
        looked.unread = str(error)
    looked.records, looked.odd, looked.labels = records, numbers.odd(), numbers.labels(records)
    fields = (Field(name, "/".join(sorted(types)) or "null") for name, types in sorted(known.items()))
    looked.fields = longest.told(fields)
    if not records and not len(looked.bad) and not looked.unread:
        looked.broken(Bad("empty", "it has no records"))
    return looked


def _parsed(text: bytes) -> tuple[Any, str]:
    """The value, or why there is none."""
    try:
        return json.loads(text), ""
    except UnicodeDecodeError as error:
        return None, f"the line is not UTF-8 (at its byte {error.start:,})"
    except RecursionError:
        return None, "the line is nested too deeply"
    except ValueError as error:
        zeros = " (zero bytes)" if b"\0" in text else ""
        return None, f"the line is not JSON{zeros}: {str(error)[:80]}"


def _note(known: dict[str, set[str]], found: dict[str, Any]) -> None:
    for name, value in found.items():
        kind = _TYPES.get(type(value), "other")
        known.setdefault(name, set()).update({kind} - {"null"})


def _values(numbers: Numbers, record: int, found: dict[str, Any]) -> None:
    import numpy

    for name, value in found.items():
        if isinstance(value, str):
            numbers.text(name, record, value)
            continue
        every = value if isinstance(value, list) else [value]
        if every and all(type(each) is int for each in every):
            numbers.whole(name, record, every)
        elif any(isinstance(each, float) for each in every) and all(isinstance(each, float | int) for each in every):
            numbers.array(name, record, numpy.array(every, dtype=float), rows=False)
