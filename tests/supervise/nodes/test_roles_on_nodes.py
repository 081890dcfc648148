"""TensorFlow's roles on two nodes, as far as no framework is needed: small programs play the four roles."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports
from keepstep.supervise.start.lone_restart import MOST
from keepstep_lab.machines import wait_for

ROLE = """
import json, os, pathlib, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
me = f"{task['type']}{task['index']}"
print(f"{me} has pid {os.getpid()}", flush=True)
pathlib.Path(f"{me}-{time.time_ns()}.start").write_text(f"{os.getpid()}\\n{json.dumps(config['cluster'])}")
if os.path.exists(f"broken-{me}"):
    sys.exit(3)
until = time.time() + 90
while time.time() < until and not (task["type"] in ("chief", "evaluator") and os.path.exists(f"done-{me}")):
    time.sleep(0.02)
"""


class Roles:
    """A run on two nodes with a chief, a worker on each node, a server on each, and an evaluator."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        (folder / "train.py").write_text(ROLE)
        port, env = free_ports(1)[0], {**os.environ, "KEEPSTEP_SECRET": secrets.token_hex(32), "KEEPSTEP": "off"}
        words = [sys.executable, "-m", "keepstep", "run", "--nodes", "2", "--meet", f"127.0.0.1:{port}", *options]
        words += ["--no-check", "--no-spares", "--grace", "1"]
        self.agents = [
            subprocess.Popen(
                [*words, "--node-rank", str(node), "--", sys.executable, "train.py"],
                cwd=folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            for node in range(2)
        ]

    def starts(self, task: str, count: int = 1) -> list[str]:
        """What each start of this task left: its pid and its cluster. Waits until there are so many."""

        def found() -> list[str]:
            return [each.read_text() for each in sorted(self.folder.glob(f"{task}-*.start"))]

        wait_for(lambda: len([each for each in found() if "}" in each]) >= count, f"{count} starts of {task}")
        return found()

    def kill(self, task: str) -> None:
        os.kill(int(self.starts(task)[-1].split()[0]), signal.SIGKILL)

    def done(self, *tasks: str) -> None:
        for task in tasks:
            (self.folder / f"done-{task}").touch()

    def ended(self) -> tuple[list[int], str]:
        """The statuses of both, and what the leader said."""
        said = [agent.communicate(timeout=90)[0] for agent in self.agents]
        return [agent.returncode for agent in self.agents], said[0]

    @property
    def run(self) -> Path:
        return next((self.folder / ".keepstep" / "runs").iterdir())

    def why(self) -> dict[str, object]:
        command = [sys.executable, "-m", "keepstep", "why", str(self.run), "--json"]
        found: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
        return found


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    made = Roles(tmp_path, "--per-node", "2", "--ps", "2", "--evaluator")
    yield made
    for agent in made.agents:
        with contextlib.suppress(OSError):
            os.killpg(agent.pid, signal.SIGKILL)
        agent.communicate()


ALL = ("chief0", "worker0", "worker1", "worker2", "ps0", "ps1", "evaluator0")


def test_the_run_is_over_when_the_chief_and_the_evaluator_are(roles: Roles):
    for task in ALL:
        roles.starts(task)
    roles.done("chief0", "evaluator0")
    statuses, said = roles.ended()
    assert statuses == [0, 0], said
    assert "7 processes on 2 nodes" in said and "decision" not in said
    assert [len(roles.starts(task)) for task in ALL] == [1] * 7
    assert len({each.split("\n")[1] for task in ALL for each in roles.starts(task)}) == 1, "clusters differ"
    assert json.loads((roles.run / "manifest.json").read_text())["roles"] == [
        *("chief", "worker", "worker", "worker", "ps", "ps", "evaluator")
    ]
    assert roles.why()["verdict"] == "healthy"


def test_a_lost_worker_of_the_second_node_comes_back_alone_with_its_address(roles: Roles):
    for task in ALL:
        roles.starts(task)
    roles.kill("worker2")
    first, second = roles.starts("worker2", 2)
    assert first.split()[0] != second.split()[0] and first.split("\n")[1] == second.split("\n")[1]
    roles.done("chief0", "evaluator0")
    statuses, said = roles.ended()
    assert statuses == [0, 0], said
    assert "decision: restart worker 2 (rank 3) alone now: it ended with SIGKILL" in said
    assert [len(roles.starts(task)) for task in ALL if task != "worker2"] == [1] * 6
    left = roles.run / "lost" / "attempt-0-rank3-1" / "rank3.log"
    assert f"worker2 has pid {first.split()[0]}" in left.read_text()
    report = roles.why()
    assert (report["verdict"], [each["rule"] for each in report["findings"]]) == ("healthy", ["WRK003"])


def test_a_lost_server_of_the_second_node_restarts_all(roles: Roles):
    for task in ALL:
        roles.starts(task)
    roles.kill("ps1")
    for task in ALL:
        roles.starts(task, 2)
    roles.done("chief0", "evaluator0")
    statuses, said = roles.ended()
    assert statuses == [0, 0], said
    assert "rank 5 ended with SIGKILL" in said and "with 1 restart" in said
    assert [len(roles.starts(task)) for task in ALL] == [2] * 7


def test_a_worker_that_fails_again_and_again_ends_the_run_with_its_reason(roles: Roles):
    for task in ALL:
        roles.starts(task)
    (roles.folder / "broken-worker1").touch()
    roles.kill("worker1")
    statuses, said = roles.ended()
    assert statuses == [3, 3], said
    assert len(roles.starts("worker1")) == 1 + MOST
    assert "worker 1 (rank 2) was restarted 3 times and failed each time, now with exit code 3" in said


def test_roles_need_ranks(tmp_path: Path):
    words = ["--nodes", "2", "--node-rank", "0", "--meet", "127.0.0.1:1", "--ps", "1", "--", sys.executable, "-V"]
    command = [sys.executable, "-m", "keepstep", "run", *words]
    env = {**os.environ, "KEEPSTEP_SECRET": secrets.token_hex(32)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "--per-node" in done.stderr) == (2, True), done.stderr
