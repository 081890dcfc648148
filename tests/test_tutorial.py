# SPDX-License-Identifier: Apache-2.0
"""The tutorial runs, and shows what keepstep prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lazy_framework import need_framework
from tools.tutorial import outputs, play, wording

RULE = re.compile(r"\b[A-Z]{3}\d{3}\b")


@pytest.mark.frameworks
@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    need_framework("torch")
    ran = {one.block: one for one in play(tmp_path)}
    assert len(ran) == 11
    for block, one in ran.items():
        fails = any(
            words in block for words in ("train.py label", "train.py barrier", "train.py model", "keepstep why")
        )
        assert one.status == (1 if fails else 0) or "check" in block, (block, one.status)
    shown = outputs()
    assert len(shown) == 9
    for block, text in shown.items():
        if "keepstep run" in block or "why last" in block:  # who says it first differs from run to run
            assert set(RULE.findall(ran[block].output)) == set(RULE.findall(text)), block
        elif "check" not in block:  # what a check says depends on the host
            assert wording(ran[block].output) == wording(text), f"{block}: run `python -m tools.tutorial`"


def test_wording_keeps_what_is_said_and_drops_what_differs_from_run_to_run() -> None:
    report = (
        "keepstep: run .keepstep/runs/1-train: 2 processes\n"
        "keepstep: decision: end the run: rank 1 raised\n"
        "USR001 fatal  rank 1 raised KeyError at step 60\n"
        "  seen     rank1.log:3\n             KeyError\n"
        "  fix      look at line 22\n           | print(key)\n\n"
        "what followed from it\n  + NET004  rank 1 went away (rank0.log:9)\n\n"
        "looked at: 2 logs (1.1 kB)\n  and more\n"
        "keepstep: failed with status 1 after 74 s\n"
    )
    kept = "keepstep: decision: end the run: rank # raised USR001 fatal rank # raised KeyError at step #"
    assert wording(report) == f"{kept} fix look at line # | print(key)"
