# SPDX-License-Identifier: Apache-2.0
"""The hosts of runs on several nodes, and their failures: kept in the user's state folder, beyond the runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.safe_files import append, make_private, write_whole
from keepstep.model.codec import build
from keepstep.store import failed_hosts

MOST = 20_000
"""Entries: a line for each host of each run."""
LARGEST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRun:
    """One host in one run."""

    host: str
    run: str
    at: float
    """When the run ended."""
    failures: int = 0
    """Attempts that ended because of this host."""
    cause: str | None = None
    """Of the last of them, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHistory:
    """One host in all runs that are remembered."""

    host: str
    runs: int
    failures: int
    last_run_at: float
    last_failure_at: float | None = None
    last_cause: str | None = None


def where() -> Path:
    return failed_hosts.where().with_name("runs-on-hosts.jsonl")


def remember(entries: Iterable[HostRun], path: Path | None = None) -> None:
    """Add these. Does nothing if they cannot be written."""
    with contextlib.suppress(OSError, RuntimeError):
        path = path or where()
        make_private(path.parent)
        lines = "".join(json.dumps(asdict(each)) + "\n" for each in entries)
        append(path, lines.encode())
        kept = _lines(path)
        if len(kept) > MOST:
            write_whole(path, ("\n".join(kept[-MOST // 2 :]) + "\n").encode())


def remembered(path: Path | None = None) -> list[HostHistory]:
    """By host, in the order of their names; what cannot be read is left out."""
    found: dict[str, HostHistory] = {}
    with contextlib.suppress(OSError, RuntimeError):
        for line in _lines(path or where()):
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                each = build(HostRun, foreign_json.loads(line))
                assert isinstance(each, HostRun)
                found[each.host] = _with(found.get(each.host), each)
    return [found[host] for host in sorted(found)]


def _with(before: HostHistory | None, each: HostRun) -> HostHistory:
    failed = each.failures > 0
    return HostHistory(
        host=each.host,
        runs=1 + (before.runs if before is not None else 0),
        failures=each.failures + (before.failures if before is not None else 0),
        last_run_at=each.at,
        last_failure_at=each.at if failed else before.last_failure_at if before is not None else None,
        last_cause=each.cause if failed else before.last_cause if before is not None else None,
    )


def _lines(path: Path) -> list[str]:
    with path.open("rb") as stream:
        return stream.read(LARGEST).decode(errors="replace").splitlines()
