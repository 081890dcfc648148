# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run went, from its folder alone: while it goes on, and after its end."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.signals.goodput import AttemptTimes, Goodput, goodput_of
from keepstep.store.history.reader import History, open_history
from keepstep.store.pause_request import ASKS
from keepstep.store.run_folders import RunManifest, read_manifest

LARGEST_REPORT = 16 << 20
SLOW = "slow."
FATAL = ("fatal",)
PACE, WENT_ON = "pace.jsonl", "then the run continued"
"""Where `keepstep run` keeps what it has told the user of an attempt, and how it tells of a standstill that ended."""


def goodput(run_folder: Path, history: History | None = None) -> Goodput:
    """``history``: that of the run, where it is open already."""
    history = history or open_history(run_folder)
    manifest = read_manifest(run_folder)
    first, last = history.span
    if manifest is None:
        attempts = [AttemptTimes(each.number, each.start, each.end) for each in history.attempts]
        return goodput_of(attempts, list(history.phases()), first, last, history.ranks)
    ends = {each.number: each.end for each in history.attempts}
    attempts = [
        _times(run_folder, manifest, place, ends.get(each.number, each.began))
        for place, each in enumerate(manifest.attempts)
    ]
    end = manifest.ended or max([last, manifest.began, *(each.end for each in attempts)])
    ranks = history.ranks or list(range(manifest.ranks))
    return goodput_of(attempts, list(history.phases()), manifest.began, end, ranks)


def _times(folder: Path, manifest: RunManifest, place: int, newest: float) -> AttemptTimes:
    said = manifest.attempts[place]
    more = place + 1 < len(manifest.attempts)
    failed = more or bool(said.status) or (said.cause is not None and said.status != 0)
    findings = findings_of(folder / f"attempt-{said.number}")
    root = next((each for each in findings if each.get("severity") in FATAL), None)
    slow = next((each for each in findings if str(each.get("cause", "")).startswith(SLOW)), None)
    told = _told(folder / f"attempt-{said.number}")
    return AttemptTimes(
        number=said.number,
        start=said.began,
        end=said.ended or newest,
        failed=failed,
        cause=said.title or _title(root) if failed else None,
        culprits=_ranks(root) if failed else (),
        slow=_title(slow),
        stalls=tuple((at, words) for at, words in told if words.endswith(WENT_ON)),
        paused=next((words.partition(";")[0] for _, words in told if words.endswith(ASKS)), None),
        resumed=said.resumed,
        unsaved_s=said.unsaved_s,
    )


def _told(folder: Path) -> list[tuple[float, str]]:
    """What the user was told while the attempt ran, and when."""
    found = []
    with contextlib.suppress(OSError), open_regular(folder / PACE, follow=False) as stream:
        for line in stream.read(LARGEST_REPORT).splitlines():
            with contextlib.suppress(ValueError):
                said = foreign_json.loads(line)
                if isinstance(said, dict) and isinstance(said.get("quote"), str):
                    at = said.get("at")
                    found.append((float(at) if isinstance(at, int | float) else 0.0, said["quote"]))
    return found


def _title(finding: dict[str, Any] | None) -> str | None:
    title = finding.get("title") if finding is not None else None
    return title if isinstance(title, str) else None


def _ranks(finding: dict[str, Any] | None) -> tuple[int, ...]:
    ranks = finding.get("ranks") if finding is not None else None
    return tuple(each for each in ranks if isinstance(each, int)) if isinstance(ranks, list) else ()


def findings_of(folder: Path) -> list[dict[str, Any]]:
    """Of the report on a run or an attempt, as it lies in its folder."""
    with contextlib.suppress(OSError, ValueError), open_regular(folder / "report.json", follow=False) as stream:
        found = foreign_json.loads(stream.read(LARGEST_REPORT))
        listed = found.get("findings") if isinstance(found, dict) else None
        if isinstance(listed, list):
            return [each for each in listed if isinstance(each, dict)]
    return []
