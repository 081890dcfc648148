# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep profile``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Verbs, add_verb


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = (
        "Record some steps of a running job with the framework's own profiler,\n"
        "on the ranks you name and at the same steps, and say what takes the time.\n"
        "Profiled steps are slower; all others are as before."
    )
    profile = add_verb(verbs, "profile", "record some steps of a running job", about)
    profile.add_argument("run", metavar="RUN", help="a run folder, a folder of the guard, or `last`")
    profile.add_argument(
        "--ranks", type=_ranks, metavar="LIST", help="for example 0,3 (default: all ranks on this machine)"
    )
    profile.add_argument("--steps", type=_count, default=5, metavar="N", help="how many steps (default: 5)")
    profile.add_argument(
        "--wait", type=float, default=120.0, metavar="SECONDS", help="how long to wait for the ranks (default: 120)"
    )
    profile.add_argument("--last", action="store_true", help="show what was recorded last; ask for nothing")
    profile.add_argument("--json", action="store_true", help="print JSON")


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ranks, such as 0,3") from None


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError("give a number of steps from 1 to 1000")
    return int(text)
