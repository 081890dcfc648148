# SPDX-License-Identifier: Apache-2.0
"""Lines without a year or a day, in logs that were copied later: they belong to the date that other lines state."""

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


GAVE_UP = """\
10:03:58 [replica-0] jax._src.distributed Starting JAX distributed service on [::]:8476
10:03:58 [replica-0] jax._src.distributed Connecting to JAX distributed service on 10.0.44.7:8476
F0506 10:08:58.441972       1 client.h:75] Terminating process because the JAX distributed service detected fatal \
errors. This most likely indicates that another task died; see the other task logs for more details. Error: \
DEADLINE_EXCEEDED: Deadline Exceeded

RPC: /xla.coordination.CoordinationService/RegisterTask
"""
CAME = "10:{at} [replica-1] jax._src.distributed Connecting to JAX distributed service on 10.0.44.7:8476\n"


def test_a_rank_that_came_after_the_others_had_given_up_is_named_across_logs_without_dates(tmp_path: Path) -> None:
    logs = {"replica-0": GAVE_UP, "replica-1": CAME.format(at="09:20")}
    assert first_cause(tmp_path, **logs) == "sync.deadlock_or_hang_waiting_rank"
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.rule, found.ranks) == ("SYN210", (1,))
    assert "22 s after rank 0" in found.title


def test_a_rank_that_was_there_in_time_is_not_late(tmp_path: Path) -> None:
    logs = {"replica-0": GAVE_UP, "replica-1": CAME.format(at="04:20")}
    assert first_cause(tmp_path, **logs) != "sync.deadlock_or_hang_waiting_rank"
