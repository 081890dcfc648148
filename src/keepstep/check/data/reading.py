# SPDX-License-Identifier: Apache-2.0
"""Read one unit: find out what it is, give it to the reader of its format, and turn every failure into a result."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

from keepstep.base.wording import shorten
from keepstep.check.data.find.recognise import Recognised, recognise
from keepstep.check.data.formats import FORMATS, format_name
from keepstep.check.data.inside import LEADS_OUT, LeadsOut
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import HASH_ONLY, DataUnit, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch


def read_unit(unit: DataUnit, asked: ReadRequest, told: Callable[[int], None] = lambda read: None) -> UnitRead:
    """What one unit holds. Never raises, except for what ends the process."""
    try:
        if unit.kind in FORMATS and FORMATS[unit.kind].is_store:
            looked: UnitRead = _reader(unit.kind).read_store(unit, asked, told)
            return looked
        if unit.kind == "index":
            why = str(json.loads(unit.about).get("why"))
            return UnitRead("mds").broken(Bad("corrupt", f"the index cannot be read: {why}"))
        if unit.kind == "outside":
            return UnitRead(_of_index(unit), unread=LEADS_OUT)
        if unit.kind == "missing":
            return UnitRead(_of_index(unit)).broken(Bad("missing", "the index names it, but it does not exist"))
        with DataSource(unit, told, asked.work) as source:
            if unit.kind == HASH_ONLY:
                source.read_through()
                return UnitRead("", digest=source.digest)
            looked = _read(source, unit, asked)
            if source.changed:
                return UnitRead(looked.format, changed=True, unread="it changed while it was being read")
            if source.holes and looked.data:
                looked.unread = looked.unread or f"{source.said_of_holes()}; they were skipped"
            if not source.digest and looked.data and not looked.missing_library and not looked.unread:
                source.read_through(fast=looked.protected)
            looked.digest = looked.digest or source.digest
            return looked
    except LeadsOut:
        return UnitRead("", unread=LEADS_OUT)
    except OSError as error:
        return UnitRead("", unreadable=error.strerror or f"{type(error).__name__}: {error}")
    except ImportError as error:
        return UnitRead("", missing_library=(error.name or str(error)).partition(".")[0])
    except (TooMuch, MemoryError) as error:
        return UnitRead("", unread=str(error) or "it needs more memory than there is")
    except Exception as error:
        return UnitRead("", unread=f"the reader failed: {type(error).__name__}: {shorten(str(error), 120)}")


def _of_index(unit: DataUnit) -> str:
    try:
        return str(json.loads(unit.about)["format"])
    except (ValueError, KeyError, TypeError):
        return "mds"


def _read(source: DataSource, unit: DataUnit, asked: ReadRequest) -> UnitRead:
    found = Recognised(unit.kind, named=unit.kind) if unit.kind else recognise(source)
    if not found.kind:
        return UnitRead("", data=False, packed=found.packed)
    if source.size == 0:
        return _empty(found.kind)
    if found.instead:
        return UnitRead(found.kind).broken(Bad("misnamed", f"it holds {found.instead}"))
    try:
        looked = _by_reader(source, unit, asked, found)
    except Damaged as error:
        looked = UnitRead(found.kind, packed=found.packed).broken(Bad("corrupt", f"unpacking failed: {error}"))
    except TooMuch as error:
        looked = UnitRead(found.kind, packed=found.packed, unread=str(error))
    except ImportError as error:
        looked = UnitRead(found.kind, missing_library=(error.name or str(error)).partition(".")[0])
    if found.named not in ("", found.kind) and not FORMATS[found.named].any_bytes:
        looked.broken(Bad("misnamed", f"its name says {format_name(found.named)}, but it is {format_name(found.kind)}"))
    return looked


def _by_reader(source: DataSource, unit: DataUnit, asked: ReadRequest, found: Recognised) -> UnitRead:
    read = _reader(found.kind).read
    if FORMATS[found.kind].packed:
        looked: UnitRead = read(source, asked, found.packed)
    elif unit.about:
        looked = read(source, asked, json.loads(unit.about))
    else:
        looked = read(source, asked)
    return looked


def _empty(kind: str) -> UnitRead:
    looked = UnitRead(kind, records=0 if FORMATS[kind].empty_is_valid else None, digest="empty")
    return looked.broken(Bad("empty", "the file has no bytes"))


def _reader(kind: str) -> Any:
    return importlib.import_module(f"keepstep.check.data.readers.{kind}")
