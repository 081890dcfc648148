# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of launchers, on variables as that launcher sets them and on numbers that cannot be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from keepstep import cluster
from keepstep.base import launchers
from keepstep.base.launchers import LAUNCHERS, Launcher, Trust
from keepstep.check.checkup import judge
from keepstep.check.place import Collected
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.launcher_answer import ClusterSaid, evenly
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.cluster import Fault, VariableFaulty

MEET = {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}
SAID = {
    "TF_CONFIG": {"TF_CONFIG": '{"cluster": {"worker": ["a:1","b:1","c:1"]}, "task": {"type": "worker", "index": 2}}'},
    "TORCHRUN": {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", **MEET},
    "JAX": {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": "2"},
    "JAX_SCRIPTS": {"COORDINATOR_ADDRESS": "a:1", "NUM_PROCESSES": "3", "PROCESS_ID": "2"},
    "SLURM": {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "2", "SLURM_LOCALID": "0"},
    "OPEN_MPI": {
        "OMPI_COMM_WORLD_RANK": "2",
        "OMPI_COMM_WORLD_SIZE": "3",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    },
    "HOROVOD": {"HOROVOD_RANK": "2", "HOROVOD_SIZE": "3", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"},
    "MVAPICH": {
        "MV2_COMM_WORLD_RANK": "2",
        "MV2_COMM_WORLD_SIZE": "3",
        "MV2_COMM_WORLD_LOCAL_RANK": "0",
        "MV2_COMM_WORLD_LOCAL_SIZE": "1",
    },
    "PMI": {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
    "TPU": {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "a,b,c"},
    "KUBERNETES": {"KUBERNETES_SERVICE_HOST": "a", "POD_NAME": "job-2", "JOB_COMPLETION_INDEX": "2", "NUM_PODS": "3"},
    "RAY": {"RAY_ADDRESS": "a:6379"},
}  # fmt: skip
"""By row, the variables of rank 2 of 3, alone on its host."""
NO_RANKS = {"RAY"}
"""Launchers whose variables say nothing about ranks."""
ROWS = {name: row for name, row in vars(launchers).items() if isinstance(row, Launcher)}
READ = sorted(name for name, row in ROWS.items() if row.reader is not None)


def faults(env: Mapping[str, str]) -> list[VariableFaulty]:
    return [fault for said in cluster.all_said(env) for fault in said.faults]


def test_every_row_is_in_the_table_and_every_row_with_a_reader_has_a_case() -> None:
    assert [name for name, row in ROWS.items() if row not in LAUNCHERS] == [], "add it to LAUNCHERS"
    assert sorted(set(READ) - set(SAID)) == [], "add its variables to SAID, above"


@pytest.mark.parametrize("name", READ)
def test_the_variables_of_a_launcher_are_understood(name: str) -> None:
    found = cluster.understand(SAID[name])
    assert faults(SAID[name]) == []
    if name not in NO_RANKS:
        assert found is not None and (found.said_by, found.size, found.me) == (ROWS[name].name, 3, 2)


def changed(name: str) -> list[tuple[str, str, str]]:
    """Numbers that cannot be: the variable, its value, and what it should be."""
    row, wrong = ROWS[name], []
    if row.trust is Trust.CLUSTER:
        return []
    for names, values, wanted in (
        (row.rank, ("3", "-1", "200001"), "a number from 0 to 2"),
        (row.size, ("0", "-3"), "a number, 1 or more"),
        (row.local_rank if row.local_size else (), ("1", "-1"), "a number from 0 to 0"),
        (row.local_size, ("0",), "a number, 1 or more"),
    ):
        wrong += [(each, value, wanted) for each in names if each in SAID[name] for value in values]
    return wrong


@pytest.mark.parametrize("name", READ)
def test_a_number_outside_its_range_is_refused_in_clear_words(name: str) -> None:
    for variable, value, wanted in changed(name):
        env = {**SAID[name], variable: value}
        found = faults(env)
        assert [(each.variable, each.fault, each.value, each.wanted) for each in found] == [
            (variable, Fault.OUT_OF_RANGE, value, wanted)
        ]
        understood = cluster.understand(env)
        assert understood is None or variable not in ROWS[name].rank or understood.me is None
        collected = Collected()
        collected.add(Evidence(fact=found[0], origin=Origin(source="the environment"), quote=value))
        (finding,) = judge(collected).findings
        assert f"{variable} is out of range: {value}" in finding.title and wanted in finding.because


def test_the_pods_of_a_group_that_is_smaller_than_their_index_are_refused() -> None:
    env = {**SAID["KUBERNETES"], "JOB_COMPLETION_INDEX": "3"}
    assert [(each.variable, each.wanted) for each in faults(env)] == [("JOB_COMPLETION_INDEX", "a number from 0 to 2")]
    assert faults({**env, "JOB_PARALLELISM": "3", "NUM_PODS": ""}) == []


def test_a_reader_that_checks_no_range_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Launcher(name="Toy", reader="toy", rank=("TOY_RANK",), size=("TOY_SIZE",), local_rank=("TOY_LOCAL",),
                   local_size=("TOY_LOCALS",))  # fmt: skip

    def read(env: Mapping[str, str]) -> ClusterSaid:
        if "TOY_RANK" not in env:
            return ClusterSaid()
        return ClusterSaid(Cluster(said_by="Toy", tasks=evenly(int(env["TOY_SIZE"])), me=int(env["TOY_RANK"])))

    monkeypatch.setattr(cluster, "LAUNCHERS", (*LAUNCHERS, row))
    monkeypatch.setattr(cluster, "_READERS", (read,))
    good = {"TOY_RANK": "2", "TOY_SIZE": "3", "TOY_LOCAL": "0", "TOY_LOCALS": "1"}
    understood = cluster.understand(good)
    assert faults(good) == [] and understood is not None and understood.me == 2
    for variable, value in (("TOY_RANK", "3"), ("TOY_RANK", "-1"), ("TOY_LOCAL", "1"), ("TOY_SIZE", "0")):
        assert [each.variable for each in faults({**good, variable: value})] == [variable]
    understood = cluster.understand({**good, "TOY_RANK": "3"})
    assert understood is not None and understood.me is None
    assert cluster.understand({**good, "TOY_SIZE": "0"}) is None
