# SPDX-License-Identifier: Apache-2.0
"""The rank gets a twentieth of a core (cpu cgroup), as beside a greedy neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        group = run.control_group("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"})
        (group / "cgroup.procs").write_text(str(run.pid_of(run.scenario.struck)))
        run.strike(f"rank {run.scenario.struck} gets 5 % of a core")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    text = (run.control_group("cpu", {}) / "cpu.stat").read_text()
    stat = dict(line.split() for line in text.splitlines())
    if int(stat["nr_throttled"]) < 3:
        raise Unproven("the rank was not held back")
    return (
        f"the kernel held the rank back {stat['nr_throttled']} times, {int(stat['throttled_time']) / 1e9:.1f} s in all"
    )
