# SPDX-License-Identifier: Apache-2.0
"""``keepstep check checkpoint``: compare checkpoints with their records, and print what each is."""

from __future__ import annotations

import argparse
import sys
import time

from keepstep.base.redact import redacted
from keepstep.check.checkpoints import look, named, report_on
from keepstep.cli.print_report import print_report, say
from keepstep.errors import UserError
from keepstep.store.ledger.verify import Verdict

QUIET_S = 2.0


def check_checkpoint_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if not asked.paths:
        raise UserError("no checkpoint is given", hint="for instance: keepstep check checkpoint ckpt/")
    verdicts = []
    for each in look(named(asked.paths), _Progress()):
        verdicts.append(each)
        if not asked.json:
            print(_line(each))
    report = redacted(report_on(verdicts))
    if not asked.json:
        print()
    print_report(report, as_json=asked.json)
    return report.exit_status


def _line(verdict: Verdict) -> str:
    about = f"step {verdict.step}, {verdict.writer}" if verdict.writer is not None else ""
    some = verdict.files and verdict.unrecorded
    more = f"{verdict.files} of {verdict.files + verdict.unrecorded} files recorded" if some else ""
    return "  ".join(part for part in (f"{verdict.state.word:10}", str(verdict.path), about, more) if part)


class _Progress:
    """A line now and then, while much is read."""

    def __init__(self) -> None:
        self._done, self._said = 0, time.monotonic()

    def __call__(self, size: int) -> None:
        self._done += size
        if sys.stderr.isatty() and time.monotonic() - self._said > QUIET_S:
            self._said = time.monotonic()
            say(f"{self._done / 1e9:.1f} GB compared")
