# SPDX-License-Identifier: Apache-2.0
"""What is said when no rule knows the cause."""

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


def test_the_launchers_first_failure_is_named(tmp_path):
    text = "[rank: 2] Child process with PID 4711 terminated with code 3. Forcefully terminating all other processes\n"
    root = findings(tmp_path, log=text)[0]
    assert (root.cause.value, root.ranks) == ("unknown.not_established", (2,))


@pytest.mark.parametrize("text", [STEPS, "hello\n", STEPS + "training finished after 20 steps\n"])
def test_a_log_without_a_sign_of_failure_gives_nothing(tmp_path, text):
    assert findings(tmp_path, rank0=text) == ()


def test_a_time_out_while_waiting_for_others_is_not_the_programs_own_exception(tmp_path):
    log = "still waiting: 7/8 ranks arrived, missing: 5\nTimeoutError: barrier\n"
    found = findings(tmp_path, log=log)[0]
    assert (found.cause.value, found.ranks) == ("sync.deadlock_or_hang_waiting_rank", (5,))
    alone = findings(tmp_path, log="step 10 loss 2.0\nTimeoutError: waited for the other ranks\n")[0]
    assert alone.cause.value == "unknown.not_established"
