# SPDX-License-Identifier: Apache-2.0
"""One archive to hand on: the report in three forms, the evidence, and the logs it came from.

Everything in it is redacted, and control characters are spelled out. Small logs are whole; of others, the lines around
the evidence are kept. Core files are left out. The same input gives the same bytes.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import os
import platform
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keepstep import __version__
from keepstep.base.redact import MARK, redact, redacted, taken_out
from keepstep.base.visible import visible
from keepstep.base.wording import count, size
from keepstep.errors import UserError
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.report import SCHEMA, Report
from keepstep.render.excerpt import surroundings, text_lines
from keepstep.render.html import render_html
from keepstep.render.json import dumps, render_json
from keepstep.render.terminal import render_terminal
from keepstep.sources.files.left_files import FileKind, LeftFile

WHOLE = 512 << 10
"""Logs up to this size go in as they are."""
AROUND = 60
HEAD = 60
TAIL = 200
MOST_OF_ONE = 2 << 20
MOST_IN_ALL = 24 << 20
MOST_EVIDENCE = 50_000
MOST_SECRETS = 500
"""Secrets that are looked for in all other members once recognised."""


def write_bundle(
    report: Report,
    evidence: EvidenceSet | Iterable[Evidence[Fact]],
    sources: Sequence[LeftFile],
    out: Path,
    *,
    force: bool = False,
) -> Path:
    """Write the archive (``.tar.gz``) and return its path. An existing file is overwritten only with ``force``."""
    if not force and os.path.lexists(out):
        raise UserError(f"file already exists, will not overwrite without --force: {out}")
    items = evidence.items if isinstance(evidence, EvidenceSet) else tuple(evidence)
    members = _members(redacted(report), items, sources)
    try:
        _write(out, members, force)
    except OSError as error:
        raise UserError(
            f"cannot write {out}: {error.strerror or error}",
            hint="give a path in a folder that exists and that you may write to",
        ) from error
    return out


def _write(out: Path, members: Iterable[tuple[str, bytes]], force: bool) -> None:
    """All or nothing: a file beside it, then a rename."""
    handle, name = tempfile.mkstemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            with (
                gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
            ):
                for path, data in members:
                    entry = tarfile.TarInfo(f"keepstep-bundle/{path}")
                    entry.size = len(data)
                    entry.mode = 0o600
                    archive.addfile(entry, io.BytesIO(data))
            raw.flush()
            os.fsync(raw.fileno())
        if not force and os.path.lexists(out):
            raise UserError(f"file already exists, will not overwrite without --force: {out}")
        os.replace(name, out)
    except BaseException:
        os.unlink(name)
        raise


def _members(
    report: Report, items: tuple[Evidence[Fact], ...], sources: Sequence[LeftFile]
) -> Iterator[tuple[str, bytes]]:
    logs, about, secrets = _logs(items, sources)
    for path, data in _all_members(report, items, sources, logs, about):
        yield path, _hide(data, secrets)


def _hide(data: bytes, secrets: list[str]) -> bytes:
    """Remove a secret recognised in one place from all others: a report may show a line without the name before it."""
    for secret in secrets:
        for written in dict.fromkeys((secret, json.dumps(secret)[1:-1], html.escape(secret))):
            data = data.replace(written.encode("utf-8", "replace"), MARK.encode())
    return data


def _all_members(
    report: Report,
    items: tuple[Evidence[Fact], ...],
    sources: Sequence[LeftFile],
    logs: list[tuple[str, bytes]],
    about: list[dict[str, Any]],
) -> Iterator[tuple[str, bytes]]:
    manifest: dict[str, Any] = {
        "schema": "keepstep.bundle/1",
        "report_schema": SCHEMA,
        "keepstep": __version__,
        "python": platform.python_version(),
        "evidence": min(len(items), MOST_EVIDENCE),
        "evidence_total": len(items),
        "sources": about,
    }
    yield "manifest.json", _bytes(dumps(manifest, indent=2) + "\n")
    yield "report.json", _bytes(render_json(report))
    yield "report.html", _bytes(render_html(report, surroundings(report, sources)))
    yield "report.txt", _bytes(render_terminal(report, width=100))
    lines = (dumps(to_dict(redacted(e))) for e in items[:MOST_EVIDENCE])
    yield "evidence.jsonl", _bytes("".join(f"{line}\n" for line in lines))
    yield from logs


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _logs(
    items: tuple[Evidence[Fact], ...], sources: Sequence[LeftFile]
) -> tuple[list[tuple[str, bytes]], list[dict[str, Any]], list[str]]:
    wanted: dict[str, set[int]] = {}
    for each in items:
        wanted.setdefault(each.origin.source, set()).add(each.origin.line or 0)
    logs: list[tuple[str, bytes]] = []
    about: list[dict[str, Any]] = []
    room = MOST_IN_ALL
    taken: set[str] = set()
    secrets: set[str] = set()
    for left in sources:
        entry: dict[str, Any] = {"name": redact(left.name), "size": left.size, "kind": left.kind.value}
        if left.kind is not FileKind.LOG:
            entry["left_out"] = "it may hold anything that was in memory"
        elif room <= 0:
            entry["left_out"] = f"the bundle already holds {size(MOST_IN_ALL)} of logs"
        else:
            text, entry["part"] = _excerpt(left, wanted.get(left.name, set()))
            clean = redact(text)
            secrets |= taken_out(text, clean)
            data = _bytes(visible(clean))[:MOST_OF_ONE]
            room -= len(data)
            entry["file"] = _member_name(redact(left.name), taken)
            logs.append((entry["file"], data))
        about.append(entry)
    return logs, about, sorted(secrets, key=len, reverse=True)[:MOST_SECRETS]


def _member_name(name: str, taken: set[str]) -> str:
    """A safe, unique path inside the archive, without odd characters."""
    parts = [re.sub(r"[^\w.+-]", "_", part) for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")]
    stem = "/".join(part.lstrip(".-") or "_" for part in parts)[-160:].strip("/") or "log"
    path = f"logs/{stem}.txt"
    number = 2
    while path in taken:
        path = f"logs/{stem}-{number}.txt"
        number += 1
    taken.add(path)
    return path


def _excerpt(left: LeftFile, wanted: set[int]) -> tuple[str, str]:
    """The text to keep and how it was chosen. The marks between parts give line numbers."""
    kept: list[tuple[int, str]] = []
    tail: deque[tuple[int, str]] = deque(maxlen=TAIL)
    whole: list[str] | None = []
    amount = 0
    near = _windows(wanted)
    number = 0
    for number, line in enumerate(text_lines(left), 1):
        if whole is not None:
            amount += len(line) + 1
            whole.append(line)
            if amount > WHOLE:
                whole = None
        tail.append((number, line))
        if number <= HEAD or number in near:
            kept.append((number, line))
    if whole is not None:
        return "".join(f"{line}\n" for line in whole), "whole"
    last = kept[-1][0] if kept else 0
    kept += [(n, line) for n, line in tail if n > last]
    return _with_marks(kept, number), f"{count(len(kept), 'line')} of {number:,}"


def _windows(wanted: set[int]) -> set[int]:
    """Line numbers around the evidence, first windows first, bounded."""
    near: set[int] = set()
    for line in sorted(wanted - {0}):
        near.update(range(max(1, line - AROUND), line + AROUND + 1))
        if len(near) > 20_000:
            break
    return near


def _with_marks(kept: list[tuple[int, str]], total: int) -> str:
    out: list[str] = []
    expected = 1
    for number, line in kept:
        if number != expected:
            out.append(f"----- {count(number - expected, 'line')} left out; line {number} of {total} follows -----")
        out.append(line)
        expected = number + 1
    return "".join(f"{line}\n" for line in out)
