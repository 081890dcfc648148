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
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep import __version__
from keepstep.base.redact import MARK, redact, redacted, taken_out
from keepstep.base.safe_files import NOT_REGULAR
from keepstep.base.time_budget import TimeBudget
from keepstep.base.visible import visible
from keepstep.base.wording import count, size
from keepstep.errors import UserError, cannot_write
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.report import SCHEMA, Report
from keepstep.render.excerpt import LONGEST_LINE, shown, surroundings, text_lines
from keepstep.render.html import render_html
from keepstep.render.json import dumps, render_json
from keepstep.render.terminal import render_terminal
from keepstep.sources.files.file_search import some
from keepstep.sources.files.left_files import FileKind, LeftFile

WHOLE = 512 << 10
"""Logs up to this size go in as they are."""
AROUND = 60
HEAD = 60
TAIL = 200
MOST_OF_ONE = 2 << 20
MOST_IN_ALL = 24 << 20
MOST_EVIDENCE = 50_000
AT_ONCE = 500
"""Pieces of evidence between two looks at the clock; lines of a log: ``EVERY``."""
EVERY = 10_000
TOO_LATE = "the time was over; --seconds allows more"
MOST_SECRETS = 500
"""Secrets that are looked for in all other members once recognised."""


def write_bundle(
    report: Report,
    evidence: EvidenceSet | Iterable[Evidence[Fact]],
    sources: Sequence[LeftFile],
    out: Path,
    *,
    force: bool = False,
    budget: TimeBudget | None = None,
) -> Path:
    """Write the archive (``.tar.gz``) and return its path. An existing file is overwritten only with ``force``.

    ``budget``: once it is out, the rest is left out, and the report in the bundle says so.
    """
    if not force and os.path.lexists(out):
        raise UserError(f"file already exists, will not overwrite without --force: {out}")
    items = evidence.items if isinstance(evidence, EvidenceSet) else tuple(evidence)
    members = _members(redacted(report), items, sources, budget or TimeBudget())
    try:
        _write(out, members, force)
    except OSError as error:
        raise cannot_write(out, error) from error
    return out


def _write(out: Path, members: Iterable[tuple[str, bytes]], force: bool) -> None:
    """All or nothing: a file beside it, then a rename."""
    if out.exists() and not out.is_file():  # a device, a pipe: the rename would remove it
        raise UserError(f"cannot write {out}: {NOT_REGULAR}")
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
    report: Report, items: tuple[Evidence[Fact], ...], sources: Sequence[LeftFile], budget: TimeBudget
) -> Iterator[tuple[str, bytes]]:
    logs, about, secrets = _logs(report, items, sources, budget)
    lines = list(_evidence_lines(items[:MOST_EVIDENCE], budget))
    report = replace(report, coverage=(*report.coverage, *_left_out(about, len(lines), len(items))))
    written = [each for secret in secrets for each in _as_written(secret)]
    for path, data in _all_members(report, items, sources, logs, about, lines):
        yield path, _hide(data, written)


def _left_out(about: list[dict[str, Any]], lines: int, items: int) -> Iterator[Coverage]:
    late = [str(entry["name"]) for entry in about if entry.get("left_out") == TOO_LATE]
    if late:
        what = f"{count(len(late), 'log')} of this bundle ({some(late)})"
        yield Coverage(what=what, state=CoverageState.PARTLY, why=TOO_LATE)
    if lines < min(items, MOST_EVIDENCE):
        what = f"{count(items - lines, 'line')} of evidence.jsonl"
        yield Coverage(what=what, state=CoverageState.PARTLY, why=TOO_LATE)


def _evidence_lines(items: tuple[Evidence[Fact], ...], budget: TimeBudget) -> Iterator[str]:
    for begin in range(0, len(items), AT_ONCE):
        if budget.is_out:
            return
        for each in redacted(items[begin : begin + AT_ONCE]):
            yield dumps(to_dict(each)) + "\n"


def _as_written(secret: str) -> list[bytes]:
    forms = dict.fromkeys((secret, json.dumps(secret)[1:-1], html.escape(secret)))
    return [each.encode("utf-8", "replace") for each in forms]


def _hide(data: bytes, secrets: list[bytes]) -> bytes:
    """Remove a secret recognised in one place from all others: a report may show a line without the name before it."""
    for secret in secrets:
        data = data.replace(secret, MARK.encode())
    return data


def _all_members(
    report: Report,
    items: tuple[Evidence[Fact], ...],
    sources: Sequence[LeftFile],
    logs: list[tuple[str, bytes]],
    about: list[dict[str, Any]],
    lines: list[str],
) -> Iterator[tuple[str, bytes]]:
    manifest: dict[str, Any] = {
        "schema": "keepstep.bundle/1",
        "report_schema": SCHEMA,
        "keepstep": __version__,
        "python": platform.python_version(),
        "evidence": len(lines),
        "evidence_total": len(items),
        "sources": about,
    }
    yield "manifest.json", _bytes(dumps(manifest, indent=2) + "\n")
    yield "report.json", _bytes(render_json(report))
    yield "report.html", _bytes(render_html(report, surroundings(report, sources)))
    yield "report.txt", _bytes(render_terminal(report, width=100))
    yield "evidence.jsonl", _bytes("".join(lines))
    yield from logs


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _logs(
    report: Report, items: tuple[Evidence[Fact], ...], sources: Sequence[LeftFile], budget: TimeBudget
) -> tuple[list[tuple[str, bytes]], list[dict[str, Any]], list[str]]:
    """The logs, those that a finding quotes first: there may be no room or time for all."""
    quoted = {each.origin.source for finding in report.findings for each in finding.evidence}
    wanted: dict[str, set[int]] = {}
    for each in items:
        wanted.setdefault(each.origin.source, set()).add(each.origin.line or 0)
    logs: list[tuple[str, bytes]] = []
    about: list[dict[str, Any]] = []
    room = MOST_IN_ALL
    taken: set[str] = set()
    secrets: set[str] = set()
    for left in sorted(sources, key=lambda left: left.name not in quoted):
        entry: dict[str, Any] = {"name": redact(left.name), "size": left.size, "kind": left.kind.value}
        if left.kind is not FileKind.LOG:
            entry["left_out"] = "it may hold anything that was in memory"
        elif room <= 0:
            entry["left_out"] = f"the bundle already holds {size(MOST_IN_ALL)} of logs"
        elif budget.is_out:
            entry["left_out"] = TOO_LATE
        else:
            text, entry["part"] = _excerpt(left, wanted.get(left.name, set()), budget)
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


def _excerpt(left: LeftFile, wanted: set[int], budget: TimeBudget) -> tuple[str, str]:
    """The text to keep and how it was chosen. The marks between parts give line numbers."""
    kept: list[tuple[int, str]] = []
    tail: deque[tuple[int, str]] = deque(maxlen=TAIL)
    whole: list[str] | None = []
    amount = amount_kept = 0
    near = _windows(wanted)
    number = 0
    for number, line in enumerate(text_lines(left), 1):
        if number % EVERY == 0 and budget.is_out:
            break
        if whole is not None:
            amount += min(len(line), LONGEST_LINE) + 1
            whole.append(line)
            if amount > WHOLE:
                whole = None
        tail.append((number, line))
        if (number <= HEAD or number in near) and amount_kept < MOST_OF_ONE // 2:
            kept.append((number, line))
            amount_kept += min(len(line), LONGEST_LINE)
    if whole is not None:
        return "".join(f"{shown(line)}\n" for line in whole), "whole"
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
        out.append(shown(line))
        expected = number + 1
    return "".join(f"{line}\n" for line in out)
