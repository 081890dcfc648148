# SPDX-License-Identifier: Apache-2.0
"""Logs that were copied after the year was over: times without a year belong to the year that other lines state."""

from __future__ import annotations

import os
from pathlib import Path

from keepstep.analyze.why import explain_paths

FAILED = """\
 4: W0623 11:04:18.771283  813477 platform_util.cc:206] unable to create StreamExecutor for CUDA:4: CUDA error: \
Failed call to cuDeviceGet: CUDA_ERROR_INVALID_DEVICE: invalid device ordinal
 4: jaxlib._jax.XlaRuntimeError: INTERNAL: no supported devices found for platform CUDA
srun: error: node-2: tasks 4-7: Exited with exit code 1
"""
CANCELLED = "slurmstepd: error: *** STEP 39110482.0 ON node-2 CANCELLED AT 2025-06-23T11:09:21 ***\n"
COPIED = 1794700000.0
"""In November 2026."""


def first_cause(folder: Path, **logs: str) -> str:
    for name, text in logs.items():
        path = folder / f"{name}.log"
        path.write_text(text)
        os.utime(path, (COPIED, COPIED))
    return explain_paths([folder]).report.findings[0].cause.value


def test_what_failed_before_a_cancelled_step_is_no_preemption(tmp_path: Path) -> None:
    assert first_cause(tmp_path, job=FAILED + CANCELLED) == "config.world_size_mismatch"


def test_the_year_may_stand_in_another_log(tmp_path: Path) -> None:
    assert first_cause(tmp_path, ranks=FAILED, slurm=CANCELLED) == "config.world_size_mismatch"
