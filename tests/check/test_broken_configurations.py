# SPDX-License-Identifier: Apache-2.0
"""Configurations that would kill a run: each is named, and the printed fix makes the check pass."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from keepstep.check.checkup import CheckRequest, judge, place_of
from keepstep.check.parts import look
from keepstep.check.place import Collected, Place
from keepstep.model.codec import from_dict
from keepstep.model.facts.cluster import NameLookedUp
from keepstep.model.identity import Rank
from keepstep.model.report import Report, Verdict
from keepstep_lab import hosts

HERE = "127.0.0.1"
WORKERS = [f"{HERE}:21801", f"{HERE}:21802"]


def tf_config(cluster: object = None, task: object = None, **more: object) -> dict[str, str]:
    whole = {"cluster": {"worker": WORKERS}, "task": {"type": "worker", "index": 0}}
    if cluster is not None:
        whole["cluster"] = cluster
    if task is not None:
        whole["task"] = task
    return {"TF_CONFIG": json.dumps({**whole, **more})}


def workers(*addresses: str) -> dict[str, str]:
    return tf_config({"worker": list(addresses)})


def torch(**changes: str | None) -> dict[str, str]:
    whole = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": HERE, "MASTER_PORT": "21803"}
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def jax(**changes: str) -> dict[str, str]:
    return {"JAX_COORDINATOR_ADDRESS": f"{HERE}:21804", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0", **changes}


TEXT = tf_config()["TF_CONFIG"]

BROKEN: dict[str, tuple[str, Mapping[str, str]]] = {
    "TF_CONFIG with single quotes": ("CFG101", {"TF_CONFIG": TEXT.replace('"', "'")}),
    "TF_CONFIG with a comma at the end": ("CFG101", {"TF_CONFIG": TEXT.replace("}}", ",}}")}),
    "TF_CONFIG quoted twice": ("CFG101", {"TF_CONFIG": f"'{TEXT}'"}),
    "TF_CONFIG with escaped quotes": ("CFG101", {"TF_CONFIG": TEXT.replace('"', '\\"')}),
    "TF_CONFIG without a cluster": ("CFG102", {"TF_CONFIG": '{"task": {"type": "worker", "index": 0}}'}),
    "TF_CONFIG without a task": ("CFG102", {"TF_CONFIG": json.dumps({"cluster": {"worker": WORKERS}})}),
    "TF_CONFIG with an empty cluster": ("CFG102", tf_config({})),
    "TF_CONFIG whose cluster is a list": ("CFG102", tf_config(WORKERS)),
    "TF_CONFIG whose workers are one string": ("CFG102", tf_config({"worker": ",".join(WORKERS)})),
    "TF_CONFIG with only parameter servers": ("CFG102", tf_config({"ps": WORKERS}, {"type": "ps", "index": 0})),
    "TF_CONFIG with a task that is text": ("CFG102", tf_config(task="worker")),
    "TF_CONFIG with an unknown task type": ("CFG103", tf_config(task={"type": "trainer", "index": 0})),
    "TF_CONFIG with workers for worker": ("CFG103", tf_config({"workers": WORKERS})),
    "TF_CONFIG that counts from one": ("CFG103", tf_config(task={"type": "worker", "index": 2})),
    "TF_CONFIG with a negative index": ("CFG103", tf_config(task={"type": "worker", "index": -1})),
    "TF_CONFIG with a quoted index": ("CFG103", tf_config(task={"type": "worker", "index": "1"})),
    "TF_CONFIG with an index that is a word": ("CFG103", tf_config(task={"type": "worker", "index": "first"})),
    "TF_CONFIG with a true index": ("CFG103", tf_config(task={"type": "worker", "index": True})),
    "TF_CONFIG that is ps in a cluster without": ("CFG103", tf_config(task={"type": "ps", "index": 0})),
    "TF_CONFIG with an address without a port": ("CFG104", workers(HERE, WORKERS[1])),
    "TF_CONFIG with a port beyond all": ("CFG104", workers(f"{HERE}:70000", WORKERS[1])),
    "TF_CONFIG with port zero": ("CFG104", workers(f"{HERE}:0", WORKERS[1])),
    "TF_CONFIG with a URL": ("CFG104", workers(f"http://{WORKERS[0]}", WORKERS[1])),
    "TF_CONFIG with gRPC's scheme": ("CFG104", workers(f"grpc://{WORKERS[0]}/", WORKERS[1])),
    "TF_CONFIG with IPv6 without brackets": ("CFG104", workers("::1", "[::1]:21802")),
    "TF_CONFIG with a port that is a word": ("CFG104", workers(f"{HERE}:http", WORKERS[1])),
    "TF_CONFIG with one address twice": ("CFG105", workers(WORKERS[0], WORKERS[0])),
    "TF_CONFIG with two chiefs": ("CFG105", tf_config({"chief": WORKERS}, {"type": "chief", "index": 0})),
    "TF_CONFIG with the evaluator inside": (
        "CFG105",
        tf_config({"worker": WORKERS, "evaluator": [f"{HERE}:21805"]}, {"type": "evaluator", "index": 0}),
    ),
    "torch without RANK": ("CFG106", torch(RANK=None)),
    "torch without WORLD_SIZE": ("CFG106", torch(WORLD_SIZE=None)),
    "torch without MASTER_ADDR": ("CFG106", torch(MASTER_ADDR=None)),
    "torch without MASTER_PORT": ("CFG106", torch(MASTER_PORT=None)),
    "torch with an empty RANK": ("CFG106", torch(RANK="")),
    "torch with a rank beyond the world": ("CFG107", torch(RANK="2")),
    "torch with a negative rank": ("CFG107", torch(RANK="-1")),
    "torch with a rank that is text": ("CFG107", torch(RANK="$SLURM_PROCID")),
    "torch with a world of none": ("CFG107", torch(WORLD_SIZE="0")),
    "torch with a port beyond all": ("CFG107", torch(MASTER_PORT="295000")),
    "torch with a local rank beyond its host": ("CFG107", torch(LOCAL_RANK="2", LOCAL_WORLD_SIZE="2")),
    "torch with a URL for MASTER_ADDR": ("CFG104", torch(MASTER_ADDR=f"tcp://{HERE}")),
    "torch with a port in MASTER_ADDR": ("CFG104", torch(MASTER_ADDR=f"{HERE}:29500")),
    "torch with nonsense for MASTER_ADDR": ("CFG104", torch(MASTER_ADDR="a b;c")),
    "torch with a name that does not resolve": ("NET180", torch(MASTER_ADDR="no-such-host.invalid")),
    "torch with another host's address on rank 0": ("CFG114", torch(MASTER_ADDR="198.51.100.7")),
    "JAX without a coordinator's port": ("CFG104", jax(JAX_COORDINATOR_ADDRESS=HERE)),
    "JAX with a process beyond the count": ("CFG107", jax(JAX_PROCESS_ID="2")),
    "JAX with a count that is text": ("CFG107", jax(JAX_NUM_PROCESSES="two")),
    "an interface that is not there": ("NET183", {**torch(), "NCCL_SOCKET_IFNAME": "ib7"}),
    "a proxy between the tasks": (
        "NET182",
        {**workers("localhost:21801", "localhost:21802"), "http_proxy": "http://proxy:3128"},
    ),
    "Ray's head without a port": ("CFG104", {"RAY_ADDRESS": "ray://node-0"}),
    "MPI without its size": ("CFG106", {"OMPI_COMM_WORLD_RANK": "0"}),
    "a TPU worker beyond the list": ("CFG107", {"TPU_WORKER_ID": "4", "TPU_WORKER_HOSTNAMES": "localhost,localhost"}),
}

HEALTHY: dict[str, Mapping[str, str]] = {
    "nothing at all": {},
    "TF_CONFIG of two workers": tf_config(),
    "TF_CONFIG with chief, workers and ps": tf_config(
        {"chief": [f"{HERE}:21801"], "worker": [f"{HERE}:21802"], "ps": [f"{HERE}:21803"]}, {"type": "ps", "index": 0}
    ),
    "TF_CONFIG of an evaluator": tf_config(task={"type": "evaluator", "index": 0}),
    "TF_CONFIG with other keys": tf_config(environment="cloud", rpc_layer="grpc"),
    "torchrun": torch(LOCAL_WORLD_SIZE="2", TORCHELASTIC_RUN_ID="x"),
    "torch by hand": torch(),
    "torch under Slurm, rank by Slurm": {
        "MASTER_ADDR": HERE,
        "MASTER_PORT": "21803",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_ID": "0",
        "SLURM_LOCALID": "0",
    },
    "JAX": jax(),
    "MPI": {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
    "Ray": {"RAY_ADDRESS": "ray://node-0:10001"},
    "an exempt proxy": {
        **workers("localhost:21801", "localhost:21802"),
        "http_proxy": "http://proxy:3128",
        "no_proxy": "localhost",
    },
    "all interfaces but docker's": {**torch(), "NCCL_SOCKET_IFNAME": "^docker"},
    "the loopback on one host": {**torch(), "GLOO_SOCKET_IFNAME": "lo"},
    "WORLD_SIZE alone, as people's shells have it": {"WORLD_SIZE": "4"},
}


def checked(env: Mapping[str, str]) -> Report:
    return judge(look(place_of(CheckRequest(), env), ["config"]))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_configuration_is_named(name: str) -> None:
    rule, env = BROKEN[name]
    report = checked(env)
    assert rule in {finding.rule for finding in report.findings}, [f.title for f in report.findings]
    assert report.crashed == ()


WITHOUT_A_COMMAND = ("a name that does not resolve", "another host's address")


@pytest.mark.parametrize("name", [name for name in BROKEN if not any(part in name for part in WITHOUT_A_COMMAND)])
def test_the_fix_that_is_printed_makes_the_check_pass(name: str) -> None:
    _, env = BROKEN[name]
    for _ in range(4):
        report = checked(env)
        if report.verdict is Verdict.HEALTHY:
            return
        env = mended(env, report)
    assert report.verdict is Verdict.HEALTHY, [f.title for f in report.findings]


def mended(env: Mapping[str, str], report: Report) -> Mapping[str, str]:
    """The environment after pasting the first command of the first finding into a shell."""
    commands = [fix.command for fix in report.findings[0].fixes if fix.command]
    words = shlex.split(commands[0])
    if words[0] == "unset":
        return {name: value for name, value in env.items() if name not in words[1:]}
    assert words[0] == "export", commands
    return {**env, **dict(word.split("=", 1) for word in words[1:])}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_sound_configuration_gives_no_finding(name: str) -> None:
    report = checked(HEALTHY[name])
    assert [(f.rule, f.title) for f in report.findings] == []
    assert report.verdict is Verdict.HEALTHY


def test_there_are_at_least_forty_of_them() -> None:
    assert len(BROKEN) >= 40


def test_a_port_that_another_process_holds_is_named() -> None:
    with socket.socket() as holder:
        holder.bind((HERE, 0))
        holder.listen()
        port = holder.getsockname()[1]
        report = checked(torch(MASTER_PORT=str(port)))
    assert [finding.rule for finding in report.findings] == ["NET002"]
    assert str(port) in report.findings[0].title


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces")
@pytest.mark.parametrize(("first_free", "found"), [("0", []), ("1024", ["CFG115"])])
def test_a_low_port_is_a_finding_only_where_the_kernel_refuses_it(first_free: str, found: list[str]) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from tests.check.test_broken_configurations import checked, torch\n"
        f"Path('/proc/sys/net/ipv4/ip_unprivileged_port_start').write_text('{first_free}')\n"
        "os.setresuid(65534, 65534, 65534)\n"
        "print([finding.rule for finding in checked(torch(MASTER_PORT='80')).findings])"
    )
    namespace = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if os.geteuid() != 0 or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and network namespaces")
    done = subprocess.run([*namespace, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(found), done.stderr


def together(*envs: Mapping[str, str]) -> Report:
    """What rank 0 would say about processes with these environments, all on this host."""
    looked = Collected()
    for env in envs:
        looked.take(look(place_of(CheckRequest(), env), ["config"]))
    return judge(looked)


def rules(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings]


def test_two_processes_with_one_rank_are_named() -> None:
    assert rules(together(torch(), torch(LOCAL_RANK="1"))) == ["CFG111"]
    assert rules(together(tf_config(), tf_config())) == ["CFG111"]
    assert rules(together(torch(), torch(RANK="1", LOCAL_RANK="1"))) == []


def test_a_process_that_was_told_another_cluster_is_named() -> None:
    other = tf_config({"worker": [WORKERS[0], f"{HERE}:21809"]}, {"type": "worker", "index": 1})
    assert rules(together(tf_config(), other, tf_config(task={"type": "worker", "index": 1}))) == ["CFG110", "CFG111"]
    swapped = tf_config({"worker": WORKERS[::-1]}, {"type": "worker", "index": 1})
    assert "CFG110" in rules(together(tf_config(), swapped))


def test_world_sizes_that_differ_are_named() -> None:
    assert rules(together(torch(), torch(RANK="1", WORLD_SIZE="4"))) == ["CFG112"]


def test_a_size_that_slurm_did_not_start_is_named() -> None:
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "0"}
    assert rules(together({**torch(), **slurm})) == ["CFG112"]


def test_ranks_that_torchrun_started_below_one_slurm_task_are_no_finding() -> None:
    slurm = {
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_LOCALID": "0",
        "TORCHELASTIC_RUN_ID": "none",
    }
    envs = [{**torch(RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2"), **slurm} for rank in (0, 1)]
    assert rules(together(*envs)) == []


def test_a_setting_that_differs_is_named_with_the_rank() -> None:
    report = together(torch(), {**torch(RANK="1"), "NCCL_ALGO": "Ring"}, {**torch(RANK="1", LOCAL_RANK="0")})
    assert "SYN101" in rules(report)


def test_a_transport_that_differs_is_named() -> None:
    other = tf_config(task={"type": "worker", "index": 1}, rpc_layer="grpc+verbs")
    report = together(
        tf_config(rpc_layer="grpc"), other, tf_config(task={"type": "worker", "index": 1}, rpc_layer="grpc")
    )
    assert "SYN101" in rules(report)
    assert (
        rules(together(tf_config(rpc_layer="grpc"), tf_config(task={"type": "worker", "index": 1}, rpc_layer="grpc")))
        == []
    )


def test_parameter_servers_under_a_strategy_that_refuses_them_are_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("strategy = tf.distribute.MultiWorkerMirroredStrategy()\n")
    env = tf_config({"worker": [WORKERS[0]], "ps": [WORKERS[1]]})
    place = place_of(CheckRequest(script=script), env)
    assert rules(judge(look(place, ["config"]))) == ["CFG118"]


@pytest.mark.skipif(hosts.missing() is not None, reason=str(hosts.missing()))
@pytest.mark.parametrize(
    ("address", "rule"), [("127.0.0.1", "CFG113"), ("localhost", "CFG113"), ("0.0.0.0", "CFG113"), ("node-0", None)]
)
def test_loopback_between_hosts_is_named(tmp_path: Path, address: str, rule: str | None) -> None:
    machines = hosts.Hosts(2, tmp_path, dict(os.environ))
    try:
        looked = Collected()
        for rank in (0, 1):
            env = torch(RANK=str(rank), LOCAL_RANK="0", MASTER_ADDR=address)
            settings = [f"{name}={value}" for name, value in env.items()]
            printed = machines.do(rank, "env", *settings, sys.executable, "-c", LOOK)
            looked.evidence += [from_dict(each) for each in json.loads(printed)]
        looked.checked("both hosts")
        assert rules(judge(looked)) == ([rule] if rule else [])
    finally:
        machines.close()


LOOK = """
import json
from keepstep.check.checkup import CheckRequest, place_of
from keepstep.check.parts import look
from keepstep.model.codec import to_dict
print(json.dumps([to_dict(each) for each in look(place_of(CheckRequest()), ["config"]).evidence]))
"""


def test_a_name_that_means_another_address_on_one_host_is_named() -> None:
    looked = Collected()
    for rank, address in enumerate(("10.0.0.7", "10.0.0.7", "10.9.9.9")):
        place = Place(env={}, host=f"node-{rank}", rank=Rank(index=rank, node=f"node-{rank}"))
        looked.add(place.saw(NameLookedUp(name="trainer", addresses=(address,)), "the resolver"))
    report = judge(looked)
    assert rules(report) == ["NET181"]
    assert "10.9.9.9" in report.findings[0].title
