# SPDX-License-Identifier: Apache-2.0
"""The files beside a program that decide how it is started, as bytes: plain things only, as units are."""

from __future__ import annotations

import io
import os
import pickle
from dataclasses import replace
from typing import NamedTuple

from keepstep.check.code.read_program import NotRead
from keepstep.check.code.unit_bytes import OnlyPlain
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.parse.settings.packages import lists_packages, packages_asked
from keepstep.parse.settings.recognise import SUFFIXES, facts_of


class SettingsFile(NamedTuple):
    """What a file says, and its text."""

    source: bytes
    facts: tuple[Evidence[Fact], ...]


def read_settings(data: bytes, name: str) -> tuple[bytes, bytes]:
    """The text with the usual ends of lines, and all that it says, packed. Raises ``NotRead``."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    suffix = os.path.splitext(name)[1]
    packages = packages_asked(text) if lists_packages(name) else ()
    settings = facts_of(text, suffix) if suffix in SUFFIXES else ()
    facts = [Evidence(fact=fact, origin=Origin(source="", line=line)) for line, fact in (*packages, *settings)]
    if not facts:
        raise NotRead("no settings of a training that keepstep knows")
    source = text.encode("utf-8", "replace")
    return source, pickle.dumps((source, [to_dict(each) for each in facts]), protocol=5)


def unpacked_settings(data: bytes, path: str) -> SettingsFile:
    """What was packed, of the file at this path: files of the same content are packed once."""
    source, rows = OnlyPlain(io.BytesIO(data)).load()
    facts = [from_dict(each) for each in rows]
    return SettingsFile(source, tuple(replace(each, origin=replace(each.origin, source=path)) for each in facts))
