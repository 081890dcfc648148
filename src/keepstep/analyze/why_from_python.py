# SPDX-License-Identifier: Apache-2.0
"""``keepstep.why("logs/")``: what `keepstep why` does, for scripts and notebooks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from keepstep.analyze.question import STANDARD_INPUT, Question, answer
from keepstep.base.time_budget import TimeBudget
from keepstep.errors import UserError
from keepstep.render.shown_report import ShownReport, shown


def why(
    *paths: str | os.PathLike[str],
    live: bool = False,
    pids: Sequence[int] = (),
    exit_statuses: Mapping[int, int] | None = None,
    config: str | os.PathLike[str] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    follow: bool = False,
    kernel_log: bool = True,
    seconds: float = 120.0,
) -> ShownReport:
    """Explain a run from what it left behind, and return the report. It prints nothing.

    ``paths`` are what `keepstep why` takes: folders, logs, cores, dumps, names of runs (``"last"``), ``"slurm:4711"``.
    ``live`` looks at the training processes on this host instead, or only at ``pids``. ``exit_statuses`` says how ranks
    ended, as you know it: ``{0: 0, 1: 1}``. The others are the options of the same name.

    Raises :class:`keepstep.errors.UserError` if the call is wrong, for instance if there is no such path.
    """
    if bool(paths) == live:
        raise UserError("live=True takes no path" if live else "nothing to look at: give a path, or live=True")
    if pids and not live:
        raise UserError("pids needs live=True")
    words = [os.fspath(path) for path in paths]
    if STANDARD_INPUT in words:
        raise UserError("- means standard input, which only the command line reads", hint="give the path of a file")
    question = Question(
        words=words,
        live=live,
        pids=pids,
        config=Path(config) if config is not None else None,
        rules=[Path(each) for each in rules],
        kernel_log=kernel_log,
        follow=follow,
        budget=TimeBudget(seconds),
        exit_statuses=exit_statuses or {},
    )
    return shown(answer(question).report)
