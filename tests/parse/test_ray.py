# SPDX-License-Identifier: Apache-2.0
"""What Ray says of its workers, nodes and versions."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths


def test_more_asked_for_than_there_is_comes_before_the_end_by_hand(tmp_path: Path) -> None:
    """As Ray's own torch_linear_example prints it on a machine of two cores, until somebody ends it."""
    (tmp_path / "driver.log").write_text(
        "2026-11-16 16:41:47,757\tWARNING insufficient_resources_manager.py:163 -- Ignore this message if the cluster is autoscaling."
        " Training has not started in the last 60 seconds. This could be due to the cluster not having enough resources available."
        " You asked for 3.0 CPUs and 0 GPUs, but the cluster only has 2.0 CPUs and 0 GPUs available. Stop the training and adjust the required resources\n"
        "*** SIGTERM received at time=1794847379 on cpu 1 ***\n"
    )
    root = explain_paths([tmp_path]).report.root
    assert root is not None
    assert (root.rule, root.title) == ("CFG008", "Ray could not provide what the run asked for: 3.0 CPUs and 0 GPUs")
