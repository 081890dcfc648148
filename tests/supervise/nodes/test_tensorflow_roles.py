"""TensorFlow's roles on several machines, for real: a coordinator, workers, parameter servers and an evaluator."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports
from keepstep_lab import hosts as lab
from keepstep_lab.machines import PORT, Agent, Machines

pytestmark = [
    pytest.mark.skipif(lab.missing() is not None, reason=str(lab.missing())),
    pytest.mark.frameworks("tensorflow"),
    pytest.mark.slow,
]
JOBS = Path(__file__).with_name("jobs")
SERVED, MIRRORED = JOBS / "tf_parameter_servers.py", JOBS / "tf_mirrored.py"
PATIENCE_S = 600.0


class Training:
    """One run on all machines, whose checkpoints are in a folder that they share."""

    def __init__(self, machines: Machines, script: Path, *options: str, **env: str) -> None:
        self.machines, self.saved = machines, machines.folder / "saved"
        count = machines.net.count
        variables = {"KEEPSTEP": "on", **env}
        self.agents: list[Agent] = []
        for host in range(count):
            where = ("--node-rank", str(host), "--meet", f"{lab.name(0)}:{PORT}", "--per-node", "1", "--grace", "2")
            nodes = () if "--nodes" in options else ("--nodes", str(count))
            words = (sys.executable, str(script), str(self.saved))
            self.agents.append(machines.start(host, *where, *nodes, *options, env=variables, script=words))

    @property
    def said(self) -> str:
        return self.agents[0].said

    def reaches(self, epoch: int) -> None:
        self.agents[0].says(f"finished epoch {epoch},", PATIENCE_S)

    def pid(self, task: str) -> int:
        """Of the newest process with this role."""
        found = [each for agent in self.agents for each in re.findall(rf"{task} is pid (\d+)", agent.said)]
        return int(found[-1])

    def ends(self) -> list[int]:
        statuses = [agent.ended(PATIENCE_S) for agent in self.agents]
        assert self.machines.left() == []
        return statuses

    @property
    def losses(self) -> list[str]:
        return losses(self.said)

    @property
    def folder(self) -> Path:
        return next((self.machines.of(0, "work") / ".keepstep" / "runs").iterdir())

    def why(self) -> dict[str, object]:
        command = [sys.executable, "-m", "keepstep", "why", str(self.folder), "--json"]
        found: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
        return found


def losses(said: str) -> list[str]:
    return re.findall(r"finished epoch \d+, loss [\d.]+", said)


def by_hand(script: Path, folder: Path, **roles: int) -> list[str]:
    """The losses of the same training without keepstep: every task is started with a TF_CONFIG of its own."""
    ports = iter(free_ports(sum(roles.values())))
    cluster = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in roles.items()}
    started = []
    for role, tasks in cluster.items():
        for index in range(len(tasks)):
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            env = {**os.environ, "TF_CONFIG": config, "OMP_NUM_THREADS": "1", "KEEPSTEP": "off"}
            words = [sys.executable, str(script), str(folder)]
            started.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    try:
        said, _ = started[0].communicate(timeout=PATIENCE_S)
        assert started[0].returncode == 0, said
        return losses(said.decode())
    finally:
        for each in started:
            each.kill()
            each.communicate()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(2, tmp_path / "machines")
    yield made
    made.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(3, tmp_path / "machines")
    yield made
    made.close()


@pytest.mark.long
def test_a_healthy_training_with_servers_on_two_machines_is_silent_and_the_same(machines: Machines, tmp_path: Path):
    run = Training(machines, SERVED, "--ps", "2", "--evaluator")
    assert run.ends() == [0, 0], run.said
    assert len(run.losses) == 6
    assert "evaluated epoch 6" in run.said, "the evaluator could not finish"
    ours = [line for line in run.said.splitlines() if line.startswith("keepstep:")]
    crowded = ("has been silent", "is back after")  # a machine with far more to do than this test
    assert [line for line in ours[1:-1] if not any(each in line for each in crowded)] == []
    assert run.why()["findings"] == []
    assert "worker 0 is pid" in run.agents[1].said and "ps 1 is pid" in run.agents[1].said
    assert run.losses == by_hand(SERVED, tmp_path / "by-hand", chief=1, worker=1, ps=2)


@pytest.mark.long
def test_a_lost_worker_of_another_machine_comes_back_alone(machines: Machines):
    run = Training(machines, SERVED, "--ps", "1", EPOCHS="20", PAUSE="0.3")
    run.reaches(2)
    chief, lost = run.pid("chief 0"), run.pid("worker 0")
    os.kill(lost, signal.SIGKILL)
    assert run.ends() == [0, 0], run.said
    assert "decision: restart worker 0 (rank 1) alone now: it ended with SIGKILL" in run.said
    assert len(run.losses) == 20 and "resumed" not in run.said, "the coordinator had to start over"
    assert run.pid("chief 0") == chief and run.pid("worker 0") != lost
    assert f"worker 0 is pid {lost}" in (run.folder / "lost" / "attempt-0-rank1-1" / "rank1.log").read_text()
    report = run.why()
    assert report["verdict"] == "healthy"
    assert [(each["rule"], each["ranks"]) for each in report["findings"]] == [("WRK003", [1])]


@pytest.mark.long
def test_a_lost_parameter_server_restarts_all_from_the_checkpoint(machines: Machines):
    run = Training(machines, SERVED, "--ps", "2", EPOCHS="12", PAUSE="0.3")
    run.reaches(3)
    os.kill(run.pid("ps 1"), signal.SIGKILL)
    assert run.ends() == [0, 0], run.said
    assert "[worker.parameter_server_lost]" in run.said, run.said
    assert "resumed after epoch" in run.said
    assert run.losses[-1].startswith("finished epoch 12,")
    assert run.said.count("chief 0 is pid") == 2 and run.agents[1].said.count("worker 0 is pid") == 2


@pytest.mark.long
def test_a_machine_with_a_worker_and_a_server_is_cut_off_and_done_without(three: Machines):
    run = Training(three, SERVED, "--nodes", "2:3", "--ps", "2", EPOCHS="16", PAUSE="0.5")
    run.reaches(2)
    three.drop(1)
    run.agents[0].says("the world shrinks from 3 to 2 nodes", PATIENCE_S)
    assert run.agents[1].ended(PATIENCE_S) != 0
    assert [run.agents[host].ended(PATIENCE_S) for host in (0, 2)] == [0, 0], run.said
    assert three.left() == []
    assert "node-1" in run.said and "[network.unreachable_or_firewall]" in run.said
    assert "resumed after epoch" in run.said
    assert run.losses[-1].startswith("finished epoch 16,")


@pytest.mark.long
def test_mirrored_workers_on_two_machines_train_alike_and_come_back_together(machines: Machines, tmp_path: Path):
    expected = by_hand(MIRRORED, tmp_path / "by-hand", worker=2)
    run = Training(machines, MIRRORED, PAUSE="0.5")
    run.reaches(2)
    os.kill(run.pid("worker 1"), signal.SIGKILL)
    assert run.ends() == [0, 0], run.said
    assert "rank 1 ended with SIGKILL" in run.said and "decision: restart" in run.said
    assert "resumed after epoch" in run.said
    assert set(run.losses) == set(expected), (run.losses, expected)
    assert run.losses[-1] == expected[-1]
