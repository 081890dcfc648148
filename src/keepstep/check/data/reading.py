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
from keepstep.check.data.readers.source import Source
from keepstep.check.data.units import HASH_ONLY, Asked, Looked, Unit
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch


def read_unit(unit: Unit, asked: Asked, told: Callable[[int], None] = lambda read: None) -> Looked:
    """What one unit holds. Never raises, except for what ends the process."""
    try:
        if unit.kind in FORMATS and FORMATS[unit.kind].is_store:
            looked: Looked = _reader(unit.kind).read_store(unit, asked, told)
            return looked
        if unit.kind == "index":
            why = str(json.loads(unit.about).get("why"))
            return Looked("mds").broken(Bad("corrupt", f"the index cannot be read: {why}"))
        if unit.kind == "missing":
            return Looked(_of_index(unit)).broken(Bad("missing", "the index names it, but it does not exist"))
        with Source(unit, told) as source:
            if unit.kind == HASH_ONLY:
                source.read_through()
                return Looked("", digest=source.digest)
            looked = _read(source, unit, asked)
            if source.changed:
                return Looked(looked.format, changed=True, unread="it changed while it was being read")
            if not source.digest and looked.data and not looked.missing_library and not looked.unread:
                source.read_through(fast=looked.protected)
            looked.digest = looked.digest or source.digest
            return looked
    except OSError as error:
        return Looked("", unreadable=error.strerror or f"{type(error).__name__}: {error}")
    except ImportError as error:
        return Looked("", missing_library=(error.name or str(error)).partition(".")[0])
    except (TooMuch, MemoryError) as error:
        return Looked("", unread=str(error) or "it needs more memory than there is")
    except Exception as error:
        return Looked("", unread=f"the reader failed: {type(error).__name__}: {shorten(str(error), 120)}")


def _of_index(unit: Unit) -> str:
    try:
        return str(json.loads(unit.about)["format"])
    except (ValueError, KeyError, TypeError):
        return "mds"


def _read(source: Source, unit: Unit, asked: Asked) -> Looked:
    found = Recognised(unit.kind, named=unit.kind) if unit.kind else recognise(source)
    if not found.kind:
        return Looked("", data=False, packed=found.packed)
    if source.size == 0:
        return _empty(found.kind)
    if found.instead:
        return Looked(found.kind).broken(Bad("misnamed", f"it holds {found.instead}"))
    try:
        looked = _by_reader(source, unit, asked, found)
    except Damaged as error:
        looked = Looked(found.kind, packed=found.packed).broken(Bad("corrupt", f"unpacking failed: {error}"))
    except ImportError as error:
        looked = Looked(found.kind, missing_library=(error.name or str(error)).partition(".")[0])
    if found.named not in ("", found.kind) and not FORMATS[found.named].any_bytes:
        looked.broken(Bad("misnamed", f"its name says {format_name(found.named)}, but it is {format_name(found.kind)}"))
    return looked


def _by_reader(source: Source, unit: Unit, asked: Asked, found: Recognised) -> Looked:
    read = _reader(found.kind).read
    if FORMATS[found.kind].packed:
        looked: Looked = read(source, asked, found.packed)
    elif unit.about:
        looked = read(source, asked, json.loads(unit.about))
    else:
        looked = read(source, asked)
    return looked


def _empty(kind: str) -> Looked:
    looked = Looked(kind, records=0 if FORMATS[kind].empty_is_valid else None, digest="empty")
    return looked.broken(Bad("empty", "the file has no bytes"))


def _reader(kind: str) -> Any:
    return importlib.import_module(f"keepstep.check.data.readers.{kind}")
