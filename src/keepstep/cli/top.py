# SPDX-License-Identifier: Apache-2.0
"""``keepstep top``: a run in one screen of the terminal."""

from __future__ import annotations

import argparse
import sys

from keepstep.analyze.question import run_place
from keepstep.watch.look import RunLook


def top_verb(asked: argparse.Namespace) -> int:
    """Draw it, once or until the user quits."""
    from keepstep.watch.top.loop import follow, once

    run = RunLook(run_place(asked.run))
    if asked.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        once(run)
    else:
        follow(run)
    return 0
