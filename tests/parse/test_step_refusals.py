# SPDX-License-Identifier: Apache-2.0
"""Steps that Slurm would not start, and nodes that it lost."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import ConnectFailed
from keepstep.core.facts.platform import MachineFault, Preempted
from keepstep.parse.tools.slurm import refused_steps as step_refusals
from tests.parse.reading import reader

read = reader(step_refusals)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("srun: error: MPI: Cannot create context for mpi/pmix_v4", UnsupportedCombination),
        (
            "slurmstepd: error: mpi_g_slurmstepd_init: unable to resolve MPI plugin offset from plugin_id=106. This error",
            UnsupportedCombination,
        ),
        ("srun: error: Unable to create step for job 12: Access/permission denied", ClusterSpecInvalid),
        ("sbatch: error: Batch job submission failed: Requested nodes not in this partition", ClusterSpecInvalid),
        (
            "srun: error: Unable to allocate resources: Required node not available (down, drained or reserved)",
            ClusterSpecInvalid,
        ),
        ("srun: error: Unable to allocate resources: Incompatible versions of client and server code", VersionConflict),
        ("srun: error: You asked for 4 tasks but hostlist specified 8 nodes", ClusterSpecInvalid),
        ("srun: error: Slurm job 123 has expired", ClusterSpecInvalid),
        ("slurmstepd: error: TaskProlog failed status=1", ClusterSpecInvalid),
        ("slurmstepd: error: execve(): bad interpreter(/opt/py/bin/python): No such file or directory", LibraryMissing),
        ("srun: error: Aborting, io error and missing step on node 3", MachineFault),
        ("srun: error: _server_read: aborting, io error with slurmstepd on node 3", MachineFault),
        ("srun: error: timeout waiting for task launch, started 4 of 8 tasks", ConnectFailed),
        ("salloc: Job allocation 12345 has been revoked.", Preempted),
    ],
)
def test_a_refused_or_lost_step_is_read(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "srun: error: Unable to create step for job 12: Job/step already completing or completed",
        "srun: error: n1: tasks 0-7: Exited with exit code 1",
        "salloc: Relinquishing job allocation 12345",
        "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)",
    ],
)
def test_other_words_of_slurm_are_none(text: str) -> None:
    assert read(text) == []
