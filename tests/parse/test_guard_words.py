# SPDX-License-Identifier: Apache-2.0
"""What the guard raised, read from a log alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.errors import OutOfStep
from keepstep.signals.contracts import Difference

DIFFERENCE = Difference("next", (("function named evaluate", (0, 2, 3)), ("one more call of next(dataset)", (1,))))


def printed(words: str) -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    step()\n{OutOfStep.__module__}.OutOfStep: {words}\n'


def test_ranks_that_would_run_different_programs_are_told_from_the_log_alone(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(
        printed(
            f"rank 0: the ranks are about to run different things (program): {DIFFERENCE}; more: a on rank 0 but b on rank 1"
        )
    )
    (found, *_) = explain_paths([tmp_path]).report.findings
    assert (found.rule, found.cause.value, found.ranks) == ("SYN201", "sync.collective_mismatch", (1,))


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("rank 1: x has float64 where the batches before had float32 (dtype)", "data.dtype_mismatch"),
        ("rank 1: y has 0 to 12 where the contract asks for 0 to 9 (label)", "data.label_out_of_range"),
    ],
)
def test_a_batch_that_strict_mode_refused_is_told_from_the_log_alone(tmp_path: Path, words: str, cause: str) -> None:
    (tmp_path / "run.log").write_text(printed(words))
    (found, *_) = explain_paths([tmp_path]).report.findings
    assert (found.cause.value, found.ranks) == (cause, (1,))
