# SPDX-License-Identifier: Apache-2.0
"""``keepstep check data``: read files of training data, judge, print."""

from __future__ import annotations

import argparse
from pathlib import Path

from keepstep.check.checkup import judge
from keepstep.check.data.look import DataRequest, DataSeen, look_at_data
from keepstep.check.data.manifest import usual_place
from keepstep.check.data.units import Asked
from keepstep.cli.output import print_report, refuse_to_overwrite, say, write_page
from keepstep.core.redact import redacted
from keepstep.errors import UserError

INTERRUPTED = 130


def check_data_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if asked.classes is not None and asked.classes < 1:
        raise UserError("--classes must be at least 1", hint=f"it is {asked.classes}")
    if asked.where is not None and asked.where < 0:
        raise UserError("--where must be at least 0", hint="samples are counted from 0, over all files in their order")
    for target in (asked.html, asked.quarantine):
        refuse_to_overwrite(target, asked.force)
    for folder in (asked.extract, asked.clean):
        if folder and Path(folder).exists() and not (Path(folder).is_dir() and not any(Path(folder).iterdir())):
            raise UserError(f"{folder} is not an empty folder", hint="give the name of a new one")
    seen = look_at_data(_request(asked))
    report = redacted(judge(seen.collected))
    print_report(report, as_json=asked.json)
    if asked.html:
        from keepstep.render.html import render_html

        write_page(asked.html, render_html(report))
    _rescue(asked, seen)
    if asked.where is not None:
        from keepstep.check.data.where import where

        say(where(asked.where, seen.units, seen.records))
    if seen.interrupted:
        say("interrupted; run the same command again to go on")
        return INTERRUPTED
    return report.exit_status


def _request(asked: argparse.Namespace) -> DataRequest:
    place = None
    if not asked.no_manifest:
        place = Path(asked.manifest) if asked.manifest else usual_place(asked.paths)
    return DataRequest(
        paths=tuple(asked.paths),
        asked=Asked(values=asked.values or asked.classes is not None, classes=asked.classes, labels=tuple(asked.label)),
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
        for line in clean(seen.broken, Path(asked.clean)):
            say(line)
    if asked.quarantine:
        say(quarantine(seen.broken, Path(asked.quarantine)))
