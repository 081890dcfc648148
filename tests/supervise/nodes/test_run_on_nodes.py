"""``keepstep run`` on two nodes, for real: two agents on this machine, with ranks that are small programs."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports

RANK = """
import os, sys, time
rank, attempt = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"]
with open(f"started-{attempt}-{rank}-{os.environ['WORLD_SIZE']}", "w") as file:
    file.write(str(os.getpid()))
until = time.time() + 60
while not os.path.exists(f"go-{attempt}") and time.time() < until:
    time.sleep(0.02)
if attempt == "0" and rank == "1" and os.path.exists("kill"):
    os.kill(os.getpid(), 9)
print("rank", rank, "is done")
"""
PATIENCE_S = 90.0


class Nodes:
    """Two nodes that meet on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.secret = secrets.token_hex(32)
        self.agents: list[subprocess.Popen[str]] = []
        self.env = {"KEEPSTEP": "off"}
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        (folder / "train.py").write_text(RANK)

    def start(self, node: int, *more: str, script: str = "train.py", secret: str | None = None) -> None:
        command = [
            sys.executable,
            "-m",
            "keepstep",
            "run",
            "--node-rank",
            str(node),
            "--meet",
            f"127.0.0.1:{self.port}",
        ]
        command += ["--per-node", "1", "--no-check", "--no-spares", *(more or ("--nodes", "2"))]
        self.agents.append(
            subprocess.Popen(
                [*command, "--", sys.executable, script],
                cwd=self.folder,
                env={**os.environ, "KEEPSTEP_SECRET": secret or self.secret, **self.env}
                | {"TMPDIR": str(self.temporary)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )

    def ended(self, node: int) -> tuple[int, str]:
        """The status of this agent, and what it printed."""
        said, _ = self.agents[node].communicate(timeout=PATIENCE_S)
        return self.agents[node].returncode, said

    def go(self, attempt: int, *ranks: int, world: int = 2) -> list[int]:
        """Let the ranks of an attempt go on, once all have started. Returns their pids."""
        paths = [self.folder / f"started-{attempt}-{rank}-{world}" for rank in ranks]
        wait_for(lambda: all(path.exists() and path.read_text() for path in paths), f"attempt {attempt} to start")
        (self.folder / f"go-{attempt}").touch()
        return [int(path.read_text()) for path in paths]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for agent in made.agents:
        with contextlib.suppress(OSError):
            os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()


def test_a_rank_that_is_killed_on_one_node_comes_back_with_all_others(nodes: Nodes):
    (nodes.folder / "kill").touch()
    nodes.start(0)
    nodes.start(1)
    first = nodes.go(0, 0, 1)
    second = nodes.go(1, 0, 1)
    status, said = nodes.ended(0)
    assert status == 0, said
    assert nodes.ended(1)[0] == 0
    assert "ended with SIGKILL" in said
    assert "decision: restart" in said
    assert not set(first) & set(second)
    assert not any(lives(pid) for pid in (*first, *second))


def test_a_node_whose_agent_is_killed_is_named_and_done_without(nodes: Nodes):
    nodes.start(0, "--nodes", "1:2")
    nodes.start(1, "--nodes", "1:2")
    path = nodes.folder / "started-0-1-2"
    wait_for(lambda: path.exists() and bool(path.read_text()), "rank 1 to start")
    nodes.agents[1].kill()
    nodes.go(1, 0, world=1)
    status, said = nodes.ended(0)
    assert status == 0, said
    assert "with rank 1, is gone" in said, said
    assert "the world shrinks from 2 to 1 nodes" in said
    assert not lives(int(path.read_text()))


def test_another_script_on_one_node_is_refused_before_anything_starts(nodes: Nodes):
    (nodes.folder / "other.py").write_text("print('other')")
    nodes.start(0)
    nodes.start(1, script="other.py")
    second, said = nodes.ended(1)
    assert second == 2
    assert "has another command or script than" in said
    assert nodes.ended(0)[0] != 0
    assert not list(nodes.folder.glob("started-*"))


def test_a_wrong_secret_ends_the_agent_at_once(nodes: Nodes):
    nodes.start(0)
    nodes.start(1, secret=secrets.token_hex(32))
    status, said = nodes.ended(1)
    assert status == 2
    assert "secret" in said
    nodes.agents[0].send_signal(signal.SIGINT)
    assert nodes.ended(0)[0] == 128 + signal.SIGINT


@pytest.mark.parametrize(
    ("whom", "how"),
    [
        ((), None),
        ((0,), signal.SIGTERM),
        pytest.param((1,), signal.SIGTERM, marks=pytest.mark.long),
        ((0,), signal.SIGKILL),
        pytest.param((1,), signal.SIGKILL, marks=pytest.mark.long),
        ((0, 1), signal.SIGKILL),
    ],
)
def test_nothing_is_left_behind_on_any_node_however_the_run_ends(
    nodes: Nodes, whom: tuple[int, ...], how: signal.Signals | None
):
    for node in (0, 1):
        nodes.start(node, "--nodes", "1:2", "--grace", "1", "--max-attempts", "1")
    paths = [nodes.folder / f"started-0-{rank}-2" for rank in (0, 1)]
    wait_for(lambda: all(path.exists() and path.read_text() for path in paths), "attempt 0 to start")
    assert len(list(nodes.temporary.glob("keepstep-node-*"))) == 2
    ranks = [int(path.read_text()) for path in paths]
    for node in whom:
        assert how is not None
        os.killpg(nodes.agents[node].pid, how)
    if how is None:
        (nodes.folder / "go-0").touch()
    if how is signal.SIGKILL and 0 in whom:
        wait_for(lambda: not any(map(lives, ranks)), "the ranks to be ended")
        nodes.agents[1].send_signal(signal.SIGTERM)  # it would wait for the leader
    for node in (0, 1):
        nodes.ended(node)
    wait_for(lambda: not list(nodes.temporary.iterdir()), f"{list(nodes.temporary.iterdir())} to be removed")
    assert not any(map(lives, ranks))
