# SPDX-License-Identifier: Apache-2.0
"""The tutorial runs, and shows what keepstep prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.tutorial import PAGE, concluded, page, play

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]


def test_every_command_of_the_tutorial_runs_and_every_report_in_it_is_what_keepstep_says(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ran = play(tmp_path)
    status = {one.block: one.status for one in ran}
    assert len(status) == 8
    for block, ended in status.items():
        fails = any(words in block for words in ("train.py label", "train.py barrier", "keepstep why"))
        assert ended == (1 if fails else 0) or "check" in block, (block, ended)
    shown = concluded(PAGE.read_text("utf-8"))
    assert len(shown) == 3
    assert concluded(page(ran)) == shown, "run `python -m tools.tutorial`"
