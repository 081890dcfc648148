# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from keepstep.parse.scan.lines.rank_variables import member


def tf_config(kind: str, index: int, **cluster: int) -> str:
    hosts = {job: [f"h{n}:1" for n in range(count)] for job, count in cluster.items()}
    return json.dumps({"cluster": hosts, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("environment", "arguments", "rank", "world", "role"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0"}, [], 3, 8, None),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "4"}, [], 1, 4, None),
        ({"TF_CONFIG": tf_config("worker", 1, worker=2)}, [], 1, 2, "worker"),
        ({"TF_CONFIG": tf_config("worker", 0, chief=1, worker=2, ps=1)}, [], 1, 3, "worker"),
        ({"TF_CONFIG": tf_config("ps", 0, worker=2, ps=1)}, [], 0, 2, "ps"),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "16"}, [], 5, 16, None),
        ({"SLURM_PROCID": "7", "SLURM_NTASKS": "8"}, [], 7, 8, None),
        ({}, ["train.py", "--job_name=ps", "--task_index=1"], 1, None, "ps"),
        ({}, ["train.py", "--rank", "2"], 2, None, None),
    ],
)
def test_launchers_tell_who_a_process_is(
    environment: dict[str, str], arguments: list[str], rank: int, world: int | None, role: str | None
) -> None:
    who = member(environment, arguments)
    assert who is not None
    assert (who.rank, who.world, who.role) == (rank, world, role)


@pytest.mark.parametrize(
    "environment", [{}, {"RANK": ""}, {"RANK": "first"}, {"TF_CONFIG": "{"}, {"TF_CONFIG": "[" * 5000}]
)
def test_nonsense_tells_nothing(environment: dict[str, str]) -> None:
    assert member(environment) is None


def test_members_of_one_job_share_its_name_and_others_do_not() -> None:
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    one, two = member({"RANK": "0", **job}), member({"RANK": "1", **job})
    other = member({"RANK": "1", **job, "MASTER_PORT": "2"})
    assert one and two and other
    assert one.job == two.job != other.job
