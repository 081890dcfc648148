# SPDX-License-Identifier: Apache-2.0
"""Reads the files beside a program that decide how it is started; what is something else is left out quietly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.check.code.files import NAMED, ProgramFile
from keepstep.check.code.read_program import NotRead, bytes_of
from keepstep.check.code.reader_pool import read_all
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.parse.code.read import switched_off
from keepstep.parse.settings.packages import lists_packages, packages_asked
from keepstep.parse.settings.recognise import SUFFIXES, facts_of

LARGEST = 1 << 20
"""Larger ones are data."""


@dataclass(frozen=True)
class SettingsFile:
    """What a file says, and the lines on which a comment switches rules off."""

    source: bytes
    facts: tuple[Evidence[Fact], ...]
    ignored: dict[int, tuple[str, ...]]


def read_settings(files: Sequence[ProgramFile]) -> tuple[dict[str, SettingsFile], list[tuple[str, str]]]:
    """By file as shown: what it says; and the files that the user named and that say nothing, with the reason."""
    found: dict[str, SettingsFile] = {}
    unknown: list[tuple[str, str]] = []
    results = read_all(files, reader=_read) if files else {}
    for file in files:
        result = results[file.shown]
        rows = json.loads(result) if isinstance(result, bytes) else []
        facts = tuple(from_dict(row) for row in rows)
        if facts:
            source = bytes_of(file.path)
            found[file.shown] = SettingsFile(source, facts, switched_off(source.decode("utf-8", "replace")))
        elif isinstance(result, str) and (file.module == NAMED or result.startswith("keepstep itself")):
            unknown.append((file.shown, result))
    return found, unknown


def _read(file: ProgramFile) -> bytes:
    """The facts as JSON. Raises ``NotRead``."""
    try:
        if file.module != NAMED and file.path.stat().st_size > LARGEST:
            raise NotRead("too large for settings")
    except OSError as error:
        raise NotRead(error.strerror or "cannot be read") from error
    text = bytes_of(file.path).decode("utf-8-sig", "replace").replace("\r\n", "\n")
    packages = packages_asked(text) if lists_packages(file.path.name) else ()
    settings = facts_of(text, file.path.suffix) if file.path.suffix in SUFFIXES else ()
    rows = [
        to_dict(Evidence(fact=fact, origin=Origin(source=file.shown, line=line)))
        for line, fact in (*packages, *settings)
    ]
    if not rows:
        raise NotRead("no settings of a training that keepstep knows")
    return json.dumps(rows).encode()
