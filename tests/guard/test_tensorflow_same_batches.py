# SPDX-License-Identifier: Apache-2.0
"""Workers of TensorFlow that are fed the same records in a loop of their own are named, others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.signals.same_batches import FIRST
from tests.guard.tf_workers import run

pytestmark = [pytest.mark.frameworks("tensorflow"), pytest.mark.slow]


@pytest.mark.parametrize(
    ("wrong", "named"), [(["--wrong", "same data"], [(0, 1)]), pytest.param([], [], marks=pytest.mark.long)]
)
def test_workers_that_are_fed_the_same_records_are_named(
    wrong: list[str], named: list[tuple[int, ...]], tmp_path: Path
) -> None:
    ran = run(tmp_path / "run", "tf_training.py", *wrong)
    assert ran.codes == [0, 0], ran.outputs
    assert len(ran.facts("BatchFed")) == 2 * FIRST
    report = explain_paths([tmp_path / "run" / "guard"]).report
    assert [each.ranks for each in report.findings if each.rule == "DAT075"] == named
