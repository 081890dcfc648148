# SPDX-License-Identifier: Apache-2.0
"""``keepstep pause`` and ``keepstep resume``."""

from __future__ import annotations

import argparse

from keepstep.analyze.question import run_place
from keepstep.base.wording import count, duration
from keepstep.errors import UserError
from keepstep.supervise.pause_now import pause_now, resume_now


def pause_verb(asked: argparse.Namespace) -> int:
    """Ask, and wait until all ranks wait."""
    if not 1.0 <= asked.for_s <= 1e6:
        raise UserError("--for takes 1 to 1000000 seconds")
    ranks, step = pause_now(run_place(asked.run), asked.for_s, asked.wait)
    print(f"{_ranks(ranks)} paused after step {step}, for {duration(asked.for_s)} at most")
    print(f"`keepstep resume {asked.run}` ends it")
    return 0


def resume_verb(asked: argparse.Namespace) -> int:
    """Withdraw whatever pause stands."""
    print(f"{_ranks(resume_now(run_place(asked.run)))} may go on")
    return 0


def _ranks(number: int) -> str:
    """0: several nodes on which a launcher starts the ranks."""
    return count(number, "rank") if number else "all ranks"
