# SPDX-License-Identifier: Apache-2.0
"""Runs that are slow."""

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

RETRACED = "WARNING:tensorflow:{n} out of the last {n} calls to <function step at 0x7f> triggered tf.function retracing. Tracing is\n"


def test_a_storm_of_retracing_is_a_warning(tmp_path):
    text = "".join(RETRACED.format(n=n) for n in range(5, 10)) + STEPS
    assert [(f.cause.value, f.severity) for f in findings(tmp_path, rank0=text)] == [
        ("slow.recompilation", Severity.WARNING)
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_a_few_traces_give_nothing(tmp_path, times):
    assert findings(tmp_path, rank0=RETRACED.format(n=5) * times + STEPS) == ()
