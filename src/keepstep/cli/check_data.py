# SPDX-License-Identifier: Apache-2.0
"""``keepstep check data``: read files of training data, judge, print."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from keepstep.base.did_you_mean import did_you_mean
from keepstep.base.redact import redacted
from keepstep.check.data.check_files import Rescue, Sharing, check_files
from keepstep.check.data.look import DataRequest
from keepstep.check.data.plan.picture import picture, shares_seen
from keepstep.check.data.plan.policies import POLICIES
from keepstep.check.data.report.manifest import usual_place
from keepstep.check.data.units import ReadRequest
from keepstep.cli.print_report import print_report, refuse_to_overwrite, say, write_page
from keepstep.errors import UserError

INTERRUPTED = 130


def check_data_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if asked.policy == "list":
        width = max(map(len, POLICIES))
        for name, policy in POLICIES.items():
            print(f"{name:{width}}  {policy.says}{'; --batch is that of all ranks' if policy.global_batch else ''}")
        return 0
    _refuse(asked)
    checked = check_files(_request(asked), _sharing(asked), _rescue(asked))
    report, plan = redacted(checked.report), checked.plan
    print_report(report, as_json=asked.json)
    if plan is not None and not asked.json:
        print(f"\n{picture(plan, shutil.get_terminal_size().columns)}")
    if asked.html:
        from keepstep.render.html import render_preflight

        write_page(asked.html, render_preflight(report, shares=shares_seen(plan) if plan is not None else ()))
    for line in checked.rescued:
        say(line)
    if checked.interrupted:
        say("interrupted; run the same command again to go on")
        return INTERRUPTED
    return report.exit_status


def _refuse(asked: argparse.Namespace) -> None:
    """Refuse before the work, not after it."""
    if not asked.paths:
        raise UserError("no file or folder is given", hint="for instance: keepstep check data train/")
    if asked.where is not None and asked.where < 0:
        raise UserError("--where must be at least 0", hint="samples are counted from 0, over all files in their order")
    for target in (asked.html, asked.quarantine):
        refuse_to_overwrite(target, asked.force)
    for folder in (asked.extract, asked.clean):
        if folder and Path(folder).exists() and not (Path(folder).is_dir() and not any(Path(folder).iterdir())):
            raise UserError(f"{folder} is not an empty folder", hint="give the name of a new one")
    if asked.policy is not None and asked.policy not in POLICIES:
        hint = did_you_mean(asked.policy, POLICIES, "`keepstep check data --policy list` explains all")
        raise UserError(f"no such policy: {asked.policy}", hint=hint)
    if asked.policy is not None and asked.ranks is None:
        raise UserError("--policy needs the number of ranks", hint="give --ranks N")
    for option, value, least in (
        ("--classes", asked.classes, 1),
        ("--work", asked.work, 1),
        ("--ranks", asked.ranks, 1),
        ("--batch", asked.batch, 1),
        ("--loader-workers", asked.loader_workers, 0),
    ):
        if value is not None and value < least:
            raise UserError(f"{option} must be at least {least}", hint=f"it is {value}")


def _request(asked: argparse.Namespace) -> DataRequest:
    place = Path(asked.manifest) if asked.manifest else usual_place(asked.paths)
    values = asked.values or asked.classes is not None
    return DataRequest(
        paths=tuple(asked.paths),
        asked=ReadRequest(values=values, classes=asked.classes, labels=tuple(asked.label), work=asked.work),
        manifest=None if asked.no_manifest else place,
        again=asked.again,
        jobs=asked.jobs,
        wait_s=asked.wait,
        follow=asked.follow,
    )


def _sharing(asked: argparse.Namespace) -> Sharing | None:
    if asked.ranks is None:
        return None
    policy = asked.policy or Sharing.policy
    return Sharing(ranks=asked.ranks, policy=policy, batch=asked.batch, loader_workers=asked.loader_workers)


def _rescue(asked: argparse.Namespace) -> Rescue:
    targets = {name: getattr(asked, name) for name in ("extract", "clean", "quarantine")}
    return Rescue(**{name: Path(each) for name, each in targets.items() if each}, where=asked.where)
