# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check data` is asked, and the answer: a report, the plan of who is fed what, and what was rescued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.check.checkup import judge
from keepstep.check.data.labels import labels_from
from keepstep.check.data.look import DataRequest, DataSeen, look_at_data
from keepstep.check.data.plan.evidence import evidence_of
from keepstep.check.data.plan.policies import FileRecords, Plan, plan
from keepstep.model.report import Report

MOST_SAID = 20
"""Files that are named one by one."""


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How many ranks share the records, and how: ``batch`` is what the script gives its loader."""

    ranks: int
    policy: str = "torch-sampler"
    batch: int = 1
    loader_workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Rescue:
    """What to write besides the report, and which sample to find."""

    extract: Path | None = None
    clean: Path | None = None
    quarantine: Path | None = None
    where: int | None = None


@dataclass(frozen=True)
class FilesChecked:
    report: Report
    plan: Plan | None
    rescued: Iterator[str]
    """What was written, line by line. Nothing is written before it is asked for."""
    interrupted: bool


def check_files(request: DataRequest, sharing: Sharing | None, rescue: Rescue) -> FilesChecked:
    """Read the files and judge them; with ``sharing``, also what each rank would be fed."""
    how = request.asked
    seen = look_at_data(replace(request, asked=replace(how, order=how.values and sharing is not None)))
    made = _plan(sharing, seen) if sharing is not None else None
    if made is not None:
        seen.collected.take(evidence_of(made, values=how.values))
    return FilesChecked(judge(seen.collected), made, _rescued(rescue, seen), seen.interrupted)


def _plan(sharing: Sharing, seen: DataSeen) -> Plan | None:
    """What each rank would be fed, if the records of all files are known."""
    files = []
    for unit, records in seen.counted():
        if records is None:
            seen.collected.unavailable("the plan", f"the records of {unit.path} are not known")
            return None
        files.append(FileRecords(unit.path, records, labels_from(seen.labels.get(unit.number, ""), records)))
    if not files:
        seen.collected.unavailable("the plan", "no file could be read")
        return None
    return plan(files, ranks=sharing.ranks, batch=sharing.batch, policy=sharing.policy, workers=sharing.loader_workers)


def _rescued(rescue: Rescue, seen: DataSeen) -> Iterator[str]:
    from keepstep.check.data.report.clean import clean
    from keepstep.check.data.report.extract import extract, quarantine
    from keepstep.check.data.report.locate import where

    if rescue.extract is not None:
        yield extract(seen.broken, rescue.extract)
    if rescue.clean is not None:
        number = 0
        for number, line in enumerate(clean(seen.broken, rescue.clean), 1):
            if number <= MOST_SAID:
                yield line
        if number > MOST_SAID:
            yield f"and {number - MOST_SAID:,} more files, in the same way"
    if rescue.quarantine is not None:
        yield quarantine(seen.broken, rescue.quarantine)
    if rescue.where is not None:
        yield where(rescue.where, seen.counted())
