# SPDX-License-Identifier: Apache-2.0
"""The run folders that `keepstep run` left in a scheduler's job: it notes the job, and prints where its folder is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from keepstep.base.safe_files import open_regular
from keepstep.sources.schedulers.scheduler_answer import JobLeft
from keepstep.store import fallback_folder, run_folders

_SAID = re.compile(rb"^(?:\d{1,6}: )?keepstep: run ([^\n]{1,400}?): ", re.M)
READ = 1 << 20
"""Bytes from the start of an output: the line comes before the first rank's."""


def runs_of(job: JobLeft) -> list[Path]:
    """The folders whose manifest names this job, in the order in which they began."""
    found: dict[Path, float] = {}
    for path in (*_in_its_folders(job), *_named_in_its_output(job)):
        manifest = run_folders.read_manifest(path)
        if manifest is not None and set(manifest.jobs) & set(job.ids) and _may_be_of(path, job):
            found[path.resolve()] = manifest.began
    return sorted(found, key=lambda path: found[path])


def _in_its_folders(job: JobLeft) -> Iterator[Path]:
    for folder in job.folders:
        yield from (each.path for each in run_folders.runs(folder / run_folders.DEFAULT))


def _named_in_its_output(job: JobLeft) -> Iterator[Path]:
    for path in job.paths:
        with contextlib.suppress(OSError), open_regular(path) as stream:
            for said in _SAID.findall(stream.read(READ)):
                for folder in job.folders or (Path("/"),):
                    place = folder / said.decode(errors="replace")  # --run-dir may be relative
                    yield fallback_folder.of(place) or place


def _may_be_of(path: Path, job: JobLeft) -> bool:
    """Whether its owner can have written it: another user's job may print any folder."""
    with contextlib.suppress(OSError):
        return job.owner is None or path.stat().st_uid == job.owner
    return False
