"""``keepstep run --on ray --detach``: the run survives the loss of its leader, and of the process that launched it."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.supervise.engines.ray_cluster import RayCluster, missing, ray_cluster
from tests.supervise.engines.test_run_on_ray import PATIENCE_S, Run, nothing_is_left

pytestmark = [pytest.mark.skipif(missing() is not None, reason=missing() or ""), pytest.mark.frameworks]
__all__ = ["nothing_is_left"]
ACTORS = """
import ray
ray.init(logging_level="error", log_to_driver=False)
print("named:", ray.util.list_named_actors(all_namespaces=True), ray.available_resources().get("CPU"))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    folder: Path = tmp_path_factory.mktemp("ray")
    with ray_cluster(3, folder) as made:
        yield made


def manifests(cluster: RayCluster) -> list[dict[str, object]]:
    return [json.loads(each.read_text()) for each in sorted(cluster.folder.glob(".keepstep/runs/*/manifest.json"))]


def wait_for(what: str, is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.2)


def named_actors(cluster: RayCluster) -> str:
    (cluster.folder / "actors.py").write_text(ACTORS)
    said, _ = cluster.command(0, sys.executable, "actors.py").communicate(timeout=PATIENCE_S)
    return next(line for line in said.splitlines() if line.startswith("named:"))


def leader(cluster: RayCluster, host: int) -> int:
    return next(pid for pid, words in cluster.of_the_run(host).items() if "--on ray_lead" in words)


def test_a_leader_that_is_killed_is_started_again_and_the_run_goes_on(cluster: RayCluster):
    run = Run(cluster, "--detach")
    run.started(0)
    os.kill(leader(cluster, 0), signal.SIGKILL)
    run.started(1)
    run.go(1)
    assert run.ended() == 0, run.text
    assert "finished with status 0" in run.text, run.text
    assert "Ray has started the leader again on node-0" in run.text, run.text
    assert [each["state"] for each in manifests(cluster)][-1] == "finished"
    assert named_actors(cluster).startswith("named: [] 6"), named_actors(cluster)


def test_ctrl_c_ends_a_run_that_an_actor_leads(cluster: RayCluster):
    run = Run(cluster, "--detach", "--grace", "3")
    run.started(0)
    run.process.send_signal(signal.SIGINT)
    assert run.ended() == 128 + signal.SIGINT, run.text
    assert named_actors(cluster).startswith("named: [] 6")


def test_the_run_survives_the_loss_of_the_node_that_launched_and_led_it(cluster: RayCluster):
    """The nodes that are left are as many as it needs. Ray's head is not lost: that would be the whole cluster."""
    before = len(manifests(cluster))
    run = Run(cluster, "--detach", launched_on=1)
    run.started(0)
    died = time.monotonic()
    assert leader(cluster, 1)
    cluster.die(1)
    try:
        assert run.process.wait(30) == -signal.SIGKILL
        wait_for("attempt 1", lambda: len(list(cluster.folder.glob("started-1-*"))) == 2)
        print(f"back after {time.monotonic() - died:.1f} s")
        hosts = {path.read_text().split()[1] for path in cluster.folder.glob("started-1-*")}
        assert hosts == {"node-0", "node-2"}
        run.go(1)
        wait_for("the end", lambda: manifests(cluster)[-1]["state"] == "finished")
        assert len(manifests(cluster)) == before + 2
        (first,) = [each for each in manifests(cluster)[-1]["attempts"] if each["number"] == 0]  # type: ignore[attr-defined]
        assert first["cause"] == "network.unreachable_or_firewall" and first["title"] == "node-1 went silent"
        wait_for("the actor's end", lambda: named_actors(cluster).startswith("named: [] 4"))
    finally:
        cluster.start(1)
