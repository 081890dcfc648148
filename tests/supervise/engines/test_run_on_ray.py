"""``keepstep run --on ray`` on a real Ray cluster, whose three nodes have networks of their own."""

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervise.engines.ray_cluster import HAS_JOBS, RayCluster, missing, ray_cluster

pytestmark = [pytest.mark.skipif(missing() is not None, reason=missing() or ""), pytest.mark.frameworks]
RANK = """
import os, time
rank, attempt = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"]
with open(f"started-{attempt}-{rank}", "w") as file:
    file.write(f"{os.getpid()} {os.uname().nodename}")
until = time.time() + 90
while not os.path.exists(f"go-{attempt}") and time.time() < until:
    time.sleep(0.02)
print("rank", rank, "is done")
"""
PATIENCE_S = 180.0


class Run:
    """One run on two nodes of the cluster, with a spare one, as its user sees it."""

    def __init__(
        self, cluster: RayCluster, *more: str, before: tuple[str, ...] = (), launched_on: int = 0, **env: str
    ) -> None:
        """``before``: of the command line."""
        self.cluster, self.folder = cluster, cluster.folder
        for path in (*self.folder.glob("started-*"), *self.folder.glob("go-*")):
            path.unlink()
        (self.folder / "train.py").write_text(RANK)
        options = ["--on", "ray", "--nodes", "2", "--per-node", "1", "--no-check", "--no-spares", *more]
        cluster.env = {**cluster.env, **env}
        words = [sys.executable, "-m", "keepstep", "run", *options, "--", sys.executable, "train.py"]
        self.process = cluster.command(launched_on, *before, *words)
        self.said: list[tuple[float, str]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append((time.monotonic(), line))

    def started(self, attempt: int, ranks: int = 2) -> dict[int, tuple[int, str]]:
        """The pid and the host of all ranks, as soon as they live."""
        found: dict[int, tuple[int, str]] = {}
        until = time.monotonic() + PATIENCE_S
        while len(found) < ranks:
            assert time.monotonic() < until and self.process.poll() is None, self.text
            for path in self.folder.glob(f"started-{attempt}-*"):
                if words := path.read_text().split():
                    found[int(path.name.split("-")[2])] = int(words[0]), words[1]
            time.sleep(0.02)
        return found

    def go(self, attempt: int) -> None:
        (self.folder / f"go-{attempt}").touch()

    def saw(self, pattern: str, seconds: float = PATIENCE_S) -> float:
        """When this was said."""
        until = time.monotonic() + seconds
        while True:
            for at, line in list(self.said):
                if re.search(pattern, line):
                    return at
            assert time.monotonic() < until, f"{pattern} was not said in {seconds} s:\n{self.text}"
            time.sleep(0.02)

    def ended(self) -> int:
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        self._reading.join()
        return status

    @property
    def text(self) -> str:
        return "".join(line for _, line in self.said)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    folder: Path = tmp_path_factory.mktemp("ray")
    with ray_cluster(3, folder) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: RayCluster) -> Iterator[None]:
    env = dict(cluster.env)
    yield
    cluster.env = env
    until = time.monotonic() + 15
    while time.monotonic() < until and any(cluster.of_the_run(host) for host in range(3)):
        time.sleep(0.2)
    assert [cluster.of_the_run(host) for host in range(3)] == [{}, {}, {}]


def test_a_killed_rank_comes_back_with_all_others_and_no_token_is_written(cluster: RayCluster):
    run = Run(cluster)
    first = run.started(0)
    assert first[0][1] != first[1][1], "both ranks are on one node"
    words = {host: list(cluster.of_the_run(host).values()) for host in range(3)}
    assert sum(any("ray_agent" in each for each in found) for found in words.values()) == 3, "the spare has no agent"
    os.kill(first[1][0], signal.SIGKILL)
    second = run.started(1)
    assert {pid for pid, _ in first.values()}.isdisjoint(pid for pid, _ in second.values())
    run.go(1)
    assert run.ended() == 0, run.text
    assert "ended with SIGKILL" in run.text
    token = cluster.env["RAY_AUTH_TOKEN"]
    assert token not in run.text
    for path in (cluster.folder / ".keepstep").rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path


def test_ctrl_c_ends_all_ranks_and_gives_the_nodes_back(cluster: RayCluster):
    run = Run(cluster, "--grace", "3")
    run.started(0)
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.ended() == 128 + signal.SIGINT, run.text


@pytest.mark.long
def test_a_cut_of_five_seconds_is_named_and_survived(cluster: RayCluster):
    run = Run(cluster)
    host = next(int(name[-1]) for _, name in run.started(0).values() if name != "node-0")
    cut = time.monotonic()
    cluster.cut(host)
    try:
        assert run.saw(f"node-{host}.* has been silent", 10.0) - cut < 3.0
        time.sleep(max(0.0, cut + 5 - time.monotonic()))
    finally:
        cluster.mend(host)
    run.saw(f"node-{host} is back")
    run.go(0)
    assert run.ended() == 0, run.text
    assert "decision" not in run.text


def test_a_wrong_token_is_a_clear_line_in_bounded_time(cluster: RayCluster):
    wrong = secrets.token_hex(32)
    began = time.monotonic()
    run = Run(cluster, RAY_AUTH_TOKEN=wrong)
    assert run.ended() == 2
    assert time.monotonic() - began < 60
    assert re.search("does not let this process in|no Ray cluster answered", run.text), run.text
    assert wrong not in run.text


def test_more_resources_than_there_are_is_said(cluster: RayCluster):
    run = Run(cluster, "--resources", '{"CPU": 99}', "--wait", "8")
    assert run.ended() != 0
    assert "Ray has not 2 nodes with 99 CPU each free" in run.text


def test_a_node_that_dies_is_replaced_by_the_spare_one(cluster: RayCluster):
    run = Run(cluster)
    first = run.started(0)
    host = next(int(name[-1]) for _, name in first.values() if name != "node-0")
    died = time.monotonic()
    cluster.die(host)
    try:
        assert run.saw(f"node-{host}.* has been silent", 10.0) - died < 3.0
        second = run.started(1)
        assert f"node-{host}" not in {name for _, name in second.values()}
        run.go(1)
        assert run.ended() == 0, run.text
        assert f" replaces node-{host} " in run.text, run.text
    finally:
        cluster.start(host)


def test_a_node_that_ray_gets_later_can_take_part(cluster: RayCluster):
    cluster.die(2)
    try:
        run = Run(cluster, "--nodes", "2:3", "--spare-nodes", "0", "--wait-for-more", "1")
        run.started(0)
    finally:
        cluster.start(2)
    run.saw("2 of up to 3 nodes came, which is enough: waiting up to 1.0 s for more")
    run.saw("node-2 can take part: at its next checkpoint the run is started again with 3 nodes instead of 2")
    run.go(0)
    assert run.ended() == 0, run.text


NODE_IDS = """
import ray
ray.init(logging_level="error", log_to_driver=False)
print(*[f"{each['NodeManagerHostname']}={each['NodeID']}" for each in ray.nodes() if each["Alive"]])
"""


@pytest.mark.long
def test_a_node_that_ray_drains_is_one_event_for_all_ranks_whatever_was_before(cluster: RayCluster):
    (cluster.folder / "ids.py").write_text(NODE_IDS)
    said, _ = cluster.command(0, sys.executable, "ids.py").communicate(timeout=PATIENCE_S)
    ids = dict(word.split("=") for word in said.splitlines()[-1].split())
    run = Run(cluster, "--grace", "4")
    host = next(name for _, name in run.started(0).values() if name != "node-0")
    cluster.cut(int(host[-1]))  # survived, so it is not the cause of what comes later
    try:
        run.saw(f"{host}.* has been silent", 10.0)
    finally:
        cluster.mend(int(host[-1]))
    run.saw(f"{host} is back")
    drain = ["drain-node", "--node-id", ids[host], "--reason", "DRAIN_NODE_REASON_PREEMPTION"]
    drain += ["--reason-message", "a trial", "--deadline-remaining-seconds", "600"]
    done = cluster.command(0, sys.executable, "-m", "ray.scripts.scripts", *drain)
    assert done.wait(PATIENCE_S) == 0, done.stdout.read() if done.stdout else ""
    run.saw(f"Ray drains {host}, which goes away in .*; all ranks get SIGTERM and 4 s")
    assert host not in {name for _, name in run.started(1).values()}
    run.go(1)
    assert run.ended() == 0, run.text
    assert f"Ray ended the run: it drains {host}" in run.text and "[preemption.sigterm]" in run.text, run.text
    assert "[network." not in run.text, run.text
    cluster.die(int(host[-1]))
    cluster.start(int(host[-1]))


@pytest.mark.skipif(not HAS_JOBS, reason="ray[default] is not installed")
def test_a_submitted_job_leads_and_its_files_are_on_all_nodes(cluster: RayCluster):
    brought = cluster.folder / "brought"
    brought.mkdir()
    at = str(cluster.folder)
    (brought / "train.py").write_text(RANK.replace('f"started-', f'f"{at}/started-').replace('f"go-', f'f"{at}/go-'))
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", "http://127.0.0.1:8265"]
    run = Run(cluster, before=(*submit, "--working-dir", str(brought), "--"))
    first = run.started(0)
    assert {os.readlink(f"/proc/{pid}/cwd").rpartition("/")[2][:9] for pid, _ in first.values()} == {"_ray_pkg_"}
    os.kill(first[1][0], signal.SIGKILL)
    run.started(1)
    run.go(1)
    assert run.ended() == 0, run.text
    assert "rank 1 ended with SIGKILL" in run.text and "finished with status 0" in run.text, run.text


def test_the_run_ends_on_all_nodes_when_the_launching_process_is_killed(cluster: RayCluster):
    run = Run(cluster)
    ranks = [pid for pid, _ in run.started(0).values()]
    driver = next(pid for pid, words in cluster.of_the_run(0).items() if "--on ray --nodes" in words)
    os.kill(driver, signal.SIGKILL)
    ends(ranks, 15.0)
    assert run.ended() == -signal.SIGKILL


@pytest.mark.long
def test_the_run_ends_on_all_nodes_when_the_node_of_the_launching_process_dies(cluster: RayCluster):
    """It is Ray's head as well, so this is the last test of this cluster."""
    run = Run(cluster, "--nodes", "3")
    ranks = [pid for pid, _ in run.started(0, 3).values()]
    cluster.die(0)
    ends(ranks, 25.0)
    assert run.ended() == -signal.SIGKILL


def ends(pids: list[int], seconds: float) -> None:
    """All of these processes are gone in time."""
    until = time.monotonic() + seconds
    while living := [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]:
        assert time.monotonic() < until, f"{living} still live after {seconds} s"
        time.sleep(0.05)
