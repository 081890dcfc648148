# SPDX-License-Identifier: Apache-2.0
"""What each launcher's variables mean, and that nothing in them can hurt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keepstep
from keepstep.base.launchers import LAUNCHERS, first_set
from keepstep.cluster import all_said, torchrun, understand
from keepstep.cluster.address import read_address
from keepstep.cluster.slurm import expand_counts, expand_hosts
from keepstep.cluster.tf_config import read_tf_config, write_tf_config
from keepstep.cluster.torchrun import write_torchrun
from keepstep.cluster.write_variables import cluster_of, exports, with_ports
from keepstep.sources.schedulers.slurm_nodes import parse_nodes, parse_sharing

SLURM = {
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "5",
    "SLURM_STEP_NODELIST": "gpu[01-02],login",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
}


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1", ["node1"]),
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("a,b,c", ["a", "b", "c"]),
        ("gpu[0998-1001]", ["gpu0998", "gpu0999", "gpu1000", "gpu1001"]),
        ("node[", []),
        ("node[a-b]", []),
        ("", []),
    ],
)
def test_a_list_of_hosts_is_expanded_as_slurm_means_it(text: str, hosts: list[str]) -> None:
    assert list(expand_hosts(text)) == hosts


def test_a_list_of_counts_is_expanded_as_slurm_means_it() -> None:
    assert list(expand_counts("2(x3),1")) == [2, 2, 2, 1]
    assert list(expand_counts("many")) == []


def test_slurm_says_which_host_every_task_is_on() -> None:
    cluster = understand(SLURM)
    assert cluster is not None
    assert [task.host for task in cluster.tasks] == ["gpu01", "gpu01", "gpu02", "gpu02", "login"]
    assert cluster.me == 3 and cluster.own is not None and cluster.own.local == 1
    assert cluster.job == "71.0"


def test_a_batch_script_without_srun_is_no_cluster() -> None:
    assert understand({"SLURM_JOB_ID": "71", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None


def test_torch_variables_are_completed_by_what_slurm_says() -> None:
    cluster = understand({**SLURM, "RANK": "3", "WORLD_SIZE": "5", "MASTER_ADDR": "gpu01", "MASTER_PORT": "29500"})
    assert cluster is not None
    assert (cluster.said_by, cluster.me, cluster.meeting) == ("torchrun", 3, "gpu01:29500")
    assert cluster.tasks[2].host == "gpu02"


def test_tf_config_counts_ranks_through_chief_workers_and_servers() -> None:
    text = (
        '{"cluster": {"worker": ["b:1", "c:1"], "ps": ["d:1"], "chief": ["a:1"]}, "task": {"type": "ps", "index": 0}}'
    )
    cluster, faults = read_tf_config(text)
    assert faults == [] and cluster is not None
    assert [task.host for task in cluster.tasks] == ["a", "b", "c", "d"]
    assert cluster.me == 3


def test_what_is_written_is_read_again_as_the_same() -> None:
    cluster = cluster_of(["a", "b"], per_host=2, chief=True, ps=1)
    for task in cluster.tasks:
        read, faults = read_tf_config(write_tf_config(cluster, task.rank))
        assert faults == [] and read is not None and read.me == task.rank
        assert [t.address for t in read.tasks] == [t.address for t in cluster.tasks]
        said = torchrun.read(write_torchrun(cluster, task.rank))
        assert said.faults == [] and said.cluster is not None and said.cluster.me == task.rank


def test_the_lines_for_the_shell_hold_all_three_frameworks() -> None:
    cluster = with_ports(understand(SLURM))  # type: ignore[arg-type]
    text = "\n".join(exports(cluster, 3))
    assert '"gpu02:2222"' in text and '"gpu02:2223"' in text
    assert "MASTER_ADDR=gpu01" in text and "JAX_COORDINATOR_ADDRESS=gpu01:2222" in text


def test_the_python_name_gives_the_cluster_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    assert keepstep.cluster.understand().size == 5


def test_every_file_that_reads_variables_has_a_row_in_the_table_and_every_row_its_file() -> None:
    folder = Path(keepstep.cluster.__file__).parent
    with_reader = {path.stem for path in folder.glob("*.py") if "\ndef read(" in path.read_text()}
    assert {each.reader for each in LAUNCHERS if each.reader is not None} == with_reader


def test_no_variable_means_two_things() -> None:
    meanings = [
        names
        for each in LAUNCHERS
        for names in (each.rank, each.size, each.local_rank, each.local_size, each.meeting, each.job, each.attempt)
    ]
    spelled = [name for names in meanings for name in names]
    assert len(spelled) == len(set(spelled))
    assert first_set({"A": " ", "C": "1"}, ("A", "B", "C")) == "C"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("a:1", "a", 1), ("[::1]:22", "::1", 22), ("10.0.0.1:65535", "10.0.0.1", 65535), (" b.c.d:7 ", "b.c.d", 7)],
)
def test_an_address_is_taken_apart(text: str, host: str, port: int) -> None:
    address = read_address(text)
    assert (address.host, address.port, address.fault) == (host, port, None)


HOSTILE = [
    "[" * 100_000,
    '{"cluster":' * 5_000,
    "x" * 5_000_000,
    "\x00\x01\x02",
    '{"cluster": {"worker": {"0": {}}}, "task": []}',
    '{"cluster": {"worker": [1, null, {}]}, "task": {"type": [], "index": {}}}',
    '{"cluster": {"worker": ["%s:1"]}, "task": {"type": "worker", "index": 1e400}}' % ("a" * 70_000),
    "null",
    "[]",
    '""',
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_description_is_a_fault_and_not_a_crash(text: str) -> None:
    cluster, faults = read_tf_config(text)
    assert faults
    assert cluster is None or cluster.size < 10


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cluster", "task", "worker", "type", "index"]) | st.text(max_size=5), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_json_is_read_without_a_crash(value: object) -> None:
    read_tf_config(json.dumps(value))


NAMES = [
    "TF_CONFIG",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JAX_COORDINATOR_PORT",
    "TPU_WORKER_ID",
    "TPU_WORKER_HOSTNAMES",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "KUBERNETES_SERVICE_HOST",
    "JOB_COMPLETION_INDEX",
    "HOSTNAME",
    "NUM_PODS",
    *SLURM,
]


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.text(max_size=30) | st.integers(-5, 9).map(str) | st.sampled_from(["a:1", "a[1-3]", "2(x2)", "1e9"]),
    )
)
def test_any_variables_are_read_without_a_crash(env: dict[str, str]) -> None:
    for said in all_said(env):
        assert said.cluster or said.faults
    understand(env)


def test_slurm_tells_the_addresses_of_its_nodes() -> None:
    text = (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1 NodeAddr=127.0.0.1 NodeHostName=vm Port=17001 Version=22.05.8\n"
        "NodeName=n2 NodeAddr=10.0.0.2 NodeHostName=vm2\nslurm_load_node error: nothing\n"
    )
    assert parse_nodes(text) == {"n1": "127.0.0.1", "n2": "10.0.0.2"}


def test_slurm_tells_which_nodes_share_a_machine() -> None:
    line = "NodeName={} Arch=x86_64 NodeAddr={} NodeHostName={} Port=0\n"
    apart = line.format("n1", "10.0.0.1", "n1") + line.format("n2", "10.0.0.2", "n2")
    assert parse_sharing(apart) == ()
    assert parse_sharing(line.format("n1", "(null)", "(null)") + line.format("n2", "(null)", "(null)")) == ()
    assert parse_sharing(apart + line.format("n3", "10.0.0.2", "n3")) == ("n2", "n3"), "one address"
    assert parse_sharing(apart + line.format("n3", "10.0.0.3", "n1")) == ("n1", "n3"), "one host"
