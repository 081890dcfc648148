# SPDX-License-Identifier: Apache-2.0
"""``keepstep save``: ask a running job to save now."""

from __future__ import annotations

import argparse

from keepstep.analyze.question import run_place
from keepstep.base.wording import count
from keepstep.errors import Unavailable
from keepstep.supervise.save_now import save_now


def save_verb(asked: argparse.Namespace) -> int:
    """Ask, and wait until the ranks have agreed on a step."""
    found = save_now(run_place(asked.run), asked.wait)
    if found.step is None:
        raise Unavailable(
            f"asked, but no answer in {asked.wait:.0f} s",
            hint="the ranks save as soon as all of them call keepstep.should_save() again",
        )
    ranks = count(found.ranks, "rank") if found.ranks else "all ranks"
    print(f"{ranks} will save at the same step, about step {found.step}")
    return 0
