# SPDX-License-Identifier: Apache-2.0
"""Losses that are not finite."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.core.finding import Finding, Severity


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


def test_the_first_rank_with_nan_is_named(tmp_path):
    zero = "2024-01-01 00:00:01 INFO step 20 loss 2.2\n2024-01-01 00:00:03 WARNING loss is nan at step 26\n"
    one = (
        "2024-01-01 00:00:01 INFO step 20 loss 2.2\n2024-01-01 00:00:02 WARNING loss is nan at step 25\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 82, in main\n'
        '    raise FloatingPointError("loss was not finite")\n'
        "FloatingPointError: loss was not finite for 3 steps, giving up at step 27\n"
    )
    root = findings(tmp_path, rank0=zero, rank1=one)[0]
    assert (root.cause.value, root.ranks) == ("numeric.nan_or_divergence", (1,))


def test_a_loss_that_stays_nan_is_told_although_nothing_failed(tmp_path):
    text = "step 1 loss 2.0\n" + "".join(f"step {n} loss nan\n" for n in range(2, 9))
    root = findings(tmp_path, rank0=text)[0]
    assert (root.cause.value, root.severity) == ("numeric.nan_or_divergence", Severity.FATAL)


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss nan\n" + STEPS,
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n" + STEPS,
        "{'loss': 2.3, 'grad_norm': nan, 'learning_rate': 0.0}\n" + STEPS,
    ],
)
def test_a_single_odd_step_gives_nothing(tmp_path, text):
    assert findings(tmp_path, rank0=text) == ()


def test_a_loss_that_stands_still_is_a_warning(tmp_path):
    text = "".join(f"step {n} loss 2.302585\n" for n in range(60))
    assert [(f.cause.value, f.severity) for f in findings(tmp_path, rank0=text)] == [
        ("numeric.plateau", Severity.WARNING)
    ]
