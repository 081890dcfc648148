# SPDX-License-Identifier: Apache-2.0
"""Programs that a compiler rejects."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


def test_a_refused_program_is_named_with_its_core(tmp_path):
    text = (
        "Exception in device=TPU:7: Invalid argument: From /job:tpu_worker/replica:0/task:0:\n"
        "  (0) Invalid argument: Computation requires more parameters (6096) than supported (limit 3306).\n"
    )
    root = findings(tmp_path, log=text)[0]
    assert root.cause.value == "compile.program_limit_exceeded"
    assert root.ranks == (7,)


@pytest.mark.parametrize("text", ["ptxas info    : Used 32 registers\n"])
def test_what_a_compiler_reports_gives_nothing(tmp_path, text):
    assert findings(tmp_path, rank0=text + STEPS) == ()
