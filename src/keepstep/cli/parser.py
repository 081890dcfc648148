# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: which verbs there are, and which function does each.

``argparse``, because it starts in a tenth of the time of the friendlier libraries
and ``keepstep --help`` must be instant.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import sys

from keepstep import __version__
from keepstep.base.visible import visible
from keepstep.cli.arguments import (
    check,
    check_checkpoint,
    check_code,
    check_collectives,
    check_data,
    check_gpu,
    check_memory,
    completion,
    export,
    help_verb,
    lab,
    pause,
    profile,
    rules,
    runs,
    save,
    shrink,
    top,
    watch,
    why,
)
from keepstep.cli.arguments import run as run_options
from keepstep.cli.arguments.helpful_parser import HelpfulParser
from keepstep.errors import FULL, KeepstepError, Unavailable, UserError

_EPILOG = """\
exit status:
  0 nothing wrong   1 problems found   2 usage error   3 unable to check
  70 keepstep itself broke

examples:
  keepstep why logs/                     a folder of logs, cores and dumps
  keepstep why slurm-4711.out            one file, also .gz or .zst
  kubectl logs job/train | keepstep why -
  keepstep why --live                    the stuck job on this host
  keepstep run -n 4 -- python train.py   start, watch, explain and restart
  keepstep why last                      the last run of `keepstep run`
  keepstep top                           that run, live, in the terminal
  keepstep watch last                    the same as a page in the browser
  keepstep check data train/             corrupt, truncated and odd data files
  keepstep check checkpoint ckpt/        damaged and incomplete checkpoints
  keepstep check collectives             wrong and slow collectives
  keepstep check gpu                     GPUs and memory that give wrong results
  keepstep check memory --device h200 -- python train.py
  keepstep shrink last                   the smallest program that still fails
  keepstep rules show NET002             what a rule knows
  keepstep lab run torch_segfault        break a real job and see the report
"""

OF_THE_MACHINE = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE)
"""Errors that say something about the disk, the rights or the limits here, and nothing about keepstep."""

VERBS = {
    "why": "keepstep.cli.why:why",
    "check": "keepstep.cli.check:check_verb",
    "check code": "keepstep.cli.check_code:check_code_verb",
    "check data": "keepstep.cli.check_data:check_data_verb",
    "check checkpoint": "keepstep.cli.check_checkpoint:check_checkpoint_verb",
    "check collectives": "keepstep.cli.check_collectives:check_collectives_verb",
    "check gpu": "keepstep.cli.check_gpu:check_gpu_verb",
    "check memory": "keepstep.cli.check_memory:check_memory_verb",
    "run": "keepstep.cli.run:run_verb",
    "runs": "keepstep.cli.runs:runs_verb",
    "top": "keepstep.cli.top:top_verb",
    "watch": "keepstep.cli.watch:watch_verb",
    "save": "keepstep.cli.save:save_verb",
    "pause": "keepstep.cli.pause:pause_verb",
    "resume": "keepstep.cli.pause:resume_verb",
    "profile": "keepstep.cli.profile:profile_verb",
    "export": "keepstep.cli.export:export_verb",
    "shrink": "keepstep.cli.shrink:shrink_verb",
    "rules": "keepstep.cli.rules:rules",
    "lab": "keepstep_lab.cli.lab:lab",
    "completion": "keepstep.cli.completion:completion_verb",
    "manual": "keepstep.cli.completion:manual_verb",
    "help": "keepstep.cli.help:help_verb",
}
"""What does each verb; imported only when it is called. Some parts of the check are verbs of two words."""


def build() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = HelpfulParser(
        prog="keepstep",
        description="keepstep keeps distributed training in step, or tells you why it is not.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"keepstep {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    checks = (check, check_code, check_data, check_checkpoint, check_collectives, check_gpu, check_memory)
    during = (run_options, runs, top, watch, save, pause, profile, export, shrink)
    for each in (why, *checks, *during, rules, lab, completion, help_verb):
        each.add(verbs)
    return parser


def _joined(arguments: list[str]) -> list[str]:
    """`check code PATH` as the verb `check code`."""
    words = " ".join(arguments[:2])
    return [words, *arguments[2:]] if len(arguments) > 1 and words in VERBS else _with_seconds(arguments)


def _with_seconds(arguments: list[str]) -> list[str]:
    """`check --wait network`: the name of a part is not a number of seconds."""
    if arguments[:1] != ["check"]:
        return arguments
    return [
        "--wait=30" if word == "--wait" and following.isalpha() else word
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True)
    ]


def run(arguments: list[str]) -> int:
    """Parse the arguments and call the verb; a user's mistake never shows a traceback."""
    parser = build()
    if arguments[:1] == ["lab"] and not lab.installed():
        print(f"keepstep: {lab.ABSENT}", file=sys.stderr)
        return UserError.exit_status
    asked = parser.parse_args(_joined(arguments))
    if asked.verb is None:
        parser.print_help()
        return 0
    module, _, function = VERBS[asked.verb].partition(":")
    try:
        status: int = getattr(importlib.import_module(module), function)(asked)
    except KeepstepError as error:
        print(visible(f"keepstep: {error}"), file=sys.stderr)
        if error.hint:
            print(visible(f"  hint: {error.hint}"), file=sys.stderr)
        return error.exit_status
    except OSError as error:
        if error.errno not in OF_THE_MACHINE or asked.verb == "run":
            raise
        what = f"{error.filename}: " if error.filename else ""
        print(visible(f"keepstep: {what}{error.strerror}"), file=sys.stderr)
        return Unavailable.exit_status
    return status
