# SPDX-License-Identifier: Apache-2.0
"""``keepstep check data``: read files of training data, judge, print."""

from __future__ import annotations

import argparse
import shutil
from difflib import get_close_matches
from pathlib import Path

from keepstep.base.redact import redacted
from keepstep.check.checkup import judge
from keepstep.check.data.labels import labels_from
from keepstep.check.data.look import DataRequest, DataSeen, look_at_data
from keepstep.check.data.manifest import usual_place
from keepstep.check.data.plan import POLICIES, FileRecords, Plan, plan
from keepstep.check.data.plan_evidence import evidence_of
from keepstep.check.data.plan_picture import picture, shares_seen
from keepstep.check.data.units import Asked
from keepstep.cli.print_report import print_report, refuse_to_overwrite, say, write_page
from keepstep.errors import UserError

INTERRUPTED = 130
MOST_SAID = 20
"""Files that are named one by one."""


def check_data_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if asked.policy == "list":
        return _list_policies()
    if not asked.paths:
        raise UserError("no file or folder is given", hint="for instance: keepstep check data train/")
    if asked.classes is not None and asked.classes < 1:
        raise UserError("--classes must be at least 1", hint=f"it is {asked.classes}")
    if asked.where is not None and asked.where < 0:
        raise UserError("--where must be at least 0", hint="samples are counted from 0, over all files in their order")
    for target in (asked.html, asked.quarantine):
        refuse_to_overwrite(target, asked.force)
    for folder in (asked.extract, asked.clean):
        if folder and Path(folder).exists() and not (Path(folder).is_dir() and not any(Path(folder).iterdir())):
            raise UserError(f"{folder} is not an empty folder", hint="give the name of a new one")
    _refuse_plan(asked)
    seen = look_at_data(_request(asked))
    made = _plan(asked, seen)
    if made is not None:
        seen.collected.take(evidence_of(made, values=asked.values or asked.classes is not None))
    report = redacted(judge(seen.collected))
    print_report(report, as_json=asked.json)
    if made is not None and not asked.json:
        print(f"\n{picture(made, shutil.get_terminal_size().columns)}")
    if asked.html:
        from keepstep.render.html import render_preflight

        write_page(asked.html, render_preflight(report, shares=shares_seen(made) if made is not None else ()))
    _rescue(asked, seen)
    if asked.where is not None:
        from keepstep.check.data.where import where

        say(where(asked.where, seen.counted()))
    if seen.interrupted:
        say("interrupted; run the same command again to go on")
        return INTERRUPTED
    return report.exit_status


def _list_policies() -> int:
    width = max(map(len, POLICIES))
    for name, policy in POLICIES.items():
        print(f"{name:{width}}  {policy.says}{'; --batch is that of all ranks' if policy.global_batch else ''}")
    return 0


def _refuse_plan(asked: argparse.Namespace) -> None:
    """Refuse before the work, not after it."""
    if asked.policy is not None and asked.policy not in POLICIES:
        close = get_close_matches(asked.policy, POLICIES, n=1)
        hint = f"did you mean {close[0]}?" if close else "`keepstep check data --policy list` explains all"
        raise UserError(f"no such policy: {asked.policy}", hint=hint)
    if asked.policy is not None and asked.workers is None:
        raise UserError("--policy needs the number of ranks", hint="give --workers N")
    for option, value, least in (
        ("--workers", asked.workers, 1),
        ("--batch", asked.batch, 1),
        ("--loader-workers", asked.loader_workers, 0),
    ):
        if value is not None and value < least:
            raise UserError(f"{option} must be at least {least}", hint=f"it is {value}")


def _plan(asked: argparse.Namespace, seen: DataSeen) -> Plan | None:
    """What each rank would be fed, if asked for and if the records of all files are known."""
    if asked.workers is None:
        return None
    files = []
    for unit, records in seen.counted():
        if records is None:
            seen.collected.unavailable("the plan", f"the records of {unit.path} are not known")
            return None
        files.append(FileRecords(unit.path, records, labels_from(seen.labels.get(unit.number, ""), records)))
    if not files:
        seen.collected.unavailable("the plan", "no file could be read")
        return None
    return plan(
        files,
        ranks=asked.workers,
        batch=asked.batch,
        policy=asked.policy or "torch-sampler",
        workers=asked.loader_workers,
    )


def _request(asked: argparse.Namespace) -> DataRequest:
    place = None
    if not asked.no_manifest:
        place = Path(asked.manifest) if asked.manifest else usual_place(asked.paths)
    values = asked.values or asked.classes is not None
    how = Asked(values=values, classes=asked.classes, labels=tuple(asked.label), order=values and bool(asked.workers))
    return DataRequest(
        paths=tuple(asked.paths),
        asked=how,
        manifest=place,
        again=asked.again,
        jobs=asked.jobs,
        wait_s=asked.wait,
    )


def _rescue(asked: argparse.Namespace, seen: DataSeen) -> None:
    if not (asked.extract or asked.clean or asked.quarantine):
        return
    from keepstep.check.data.clean import clean
    from keepstep.check.data.rescue import extract, quarantine

    if asked.extract:
        say(extract(seen.broken, Path(asked.extract)))
    if asked.clean:
        number = 0
        for number, line in enumerate(clean(seen.broken, Path(asked.clean)), 1):
            if number <= MOST_SAID:
                say(line)
        if number > MOST_SAID:
            say(f"and {number - MOST_SAID:,} more files, in the same way")
    if asked.quarantine:
        say(quarantine(seen.broken, Path(asked.quarantine)))
