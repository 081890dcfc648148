# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.render.terminal import render_terminal

LOST = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    step(batch)
RuntimeError: The size of tensor a (512) must match the size of tensor b (77) at non-singleton dimension 1
"""


def test_a_line_of_the_fallout_names_its_ranks_once(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"rank{rank}.log").write_text("2026-01-01 00:00:00 OSError: [Errno 28] No space left on device\n")
    for rank in range(4, 8):
        (tmp_path / f"rank{rank}.log").write_text(LOST)
    text = render_terminal(explain_paths([tmp_path]).report, width=100)
    assert "ranks 4-7 got shapes" in text
    assert "ranks 4-7:" not in text
    assert "more" not in text.partition("ranks 4-7 got shapes")[0].rpartition("\n")[2]
