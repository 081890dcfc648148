# SPDX-License-Identifier: Apache-2.0
"""What the last check of a project found out, kept by content: a second check reads and judges only what has changed.

Two things are kept. The *answers* are small and always loaded: a summary of each file, and what was found in each
island. The *units* are large, and loaded only where an island has to be judged again.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keepstep
from keepstep.check.code.files import ProgramFile
from keepstep.check.code.judge import Island
from keepstep.check.code.read_program import NotRead, content_of
from keepstep.check.code.summary import Summary, digest_of
from keepstep.check.code.unit_bytes import BROKEN, OnlyPlain
from keepstep.store.user_cache import LARGEST, Kept, user_folder

FROM_FILES = 50
"""Fewer are read faster than a cache is."""
ANSWERS = "code-answers"
UNITS = tuple(f"code-units{number}" for number in range(8))
"""A unit lies in the part that its digest begins with: none becomes too large to be kept, and few are written again."""
FOR_GOOD = ("no ", "nested")
"""How the reasons begin for which a file will never be read as it is."""
_WRITTEN_BY = (
    "parse/code",
    "parse/settings",
    "parse/scan",
    "parse/tools/slurm",
    "check/code",
    "rules/code",
    "rules/asking",
    "model",
    "story",
    "base",
)
"""The folders of the program that decide what is found."""
_LENGTH = 8


class Cache:
    """The last check of the same place with the same rules. ``used``: else nothing is kept or believed."""

    def __init__(
        self, files: Sequence[ProgramFile], rules: Iterable[str], *, used: bool = True, kept: Kept | None = None
    ) -> None:
        self._kept = kept if kept is not None else Kept(user_folder())
        self._used = used and len(files) >= FROM_FILES
        self._place = f"{_version()} {os.path.dirname(os.path.realpath(files[0].path))}" if self._used else ""
        self._key = f"{self._place} {os.getcwd()} {' '.join(rules)}"
        self._digests = {each.shown: _digest(each) for each in files} if self._used else {}
        self._loaded: dict[str, dict[str, bytes]] = {}
        self._summaries, self._reasons, self._answers = self._load_answers()

    def known(self) -> dict[str, Summary]:
        """By file as shown: what is known of files that are as they were."""
        known = {path: self._summaries.get(each or "") for path, each in self._digests.items()}
        return {path: Summary(*found) for path, found in known.items() if found is not None}

    def not_read(self) -> dict[str, str]:
        """By file as shown: why one that is as it was cannot be read."""
        return {path: self._reasons[each] for path, each in self._digests.items() if each and each in self._reasons}

    def answer(self, island: Island, summaries: Mapping[str, Summary]) -> bytes | None:
        """What was found in an island of the same files with the same content."""
        return self._answers.get(_island_key(island, summaries)) if self._used else None

    def units(self, digests: Iterable[str]) -> dict[str, bytes]:
        """By digest: the units that are kept."""
        found = {}
        for part in sorted({_part(each) for each in digests} if self._used else ()):
            found.update(self._parts(part))
        return found

    def keep(
        self,
        summaries: Mapping[str, Summary],
        reasons: Mapping[str, str],
        units: Mapping[str, bytes],
        answers: Mapping[tuple[str, ...], bytes],
    ) -> None:
        """Keep all of it for the next time, where it is new. ``units``: those that were read now, by file."""
        if not self._used:
            return
        fresh = {summaries[path].digest: unit for path, unit in units.items() if path in summaries}
        still = {each.digest for each in summaries.values()}
        for part in {_part(each) for each in fresh}:
            both = {each: unit for each, unit in self._parts(part).items() if each in still}
            both |= {each: unit for each, unit in fresh.items() if _part(each) == part}
            self._kept.put(part, self._place, _joined(both))
        said = {each.digest: tuple(each) for each in summaries.values()}
        never = {str(self._digests.get(path)): why for path, why in reasons.items() if why.startswith(FOR_GOOD)}
        found = {_island_key(island, summaries): answer for island, answer in answers.items()}
        if said != self._summaries or never != self._reasons or found != self._answers:
            body = pickle.dumps((said, never, found), protocol=5)
            if len(body) < LARGEST:
                self._kept.put(ANSWERS, self._key, body)

    def _load_answers(self) -> tuple[dict[str, Any], dict[str, str], dict[str, bytes]]:
        body = self._kept.get(ANSWERS, self._key) if self._used else None
        try:
            said, never, found = OnlyPlain(io.BytesIO(body)).load() if body else ({}, {}, {})
            return dict(said), dict(never), dict(found)
        except BROKEN:
            return {}, {}, {}

    def _parts(self, part: str) -> dict[str, bytes]:
        if part not in self._loaded:
            self._loaded[part] = _apart(self._kept.get(part, self._place) or b"")
        return self._loaded[part]


def _part(digest: str) -> str:
    return UNITS[int(digest[:1], 16) % len(UNITS)] if digest[:1] in "0123456789abcdef" else UNITS[0]


def _joined(units: Mapping[str, bytes]) -> bytes:
    """As many as can be kept."""
    pieces, size = [], 0
    for each, unit in units.items():
        piece = _framed(each.encode()) + _framed(unit)
        size += len(piece)
        if size >= LARGEST - 1024:
            break
        pieces.append(piece)
    return b"".join(pieces)


def _apart(body: bytes) -> dict[str, bytes]:
    pieces, at = [], 0
    while at < len(body):
        start = at + _LENGTH
        at = start + int.from_bytes(body[at:start], "little")
        pieces.append(body[start:at])
    return {each.decode("ascii", "replace"): unit for each, unit in zip(pieces[::2], pieces[1::2], strict=False)}


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "little") + data


def _digest(file: ProgramFile) -> str | None:
    try:
        return digest_of(file, content_of(file))
    except NotRead:
        return None


def _island_key(island: Iterable[str], summaries: Mapping[str, Summary]) -> str:
    return hashlib.sha256("\n".join(f"{path} {summaries[path].digest}" for path in island).encode()).hexdigest()


def _version() -> str:
    """Of all that decides what is found, and of the Python that parses: what another one found is not believed."""
    top = Path(keepstep.__path__[0])
    digest = hashlib.sha256(f"{keepstep.__version__} {sys.version}".encode())
    for folder in _WRITTEN_BY:
        for path in sorted((top / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
