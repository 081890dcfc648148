# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm whose nodes are network namespaces: what happens to them, and what is said about it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.check.meeting.meeting_point import derived_ports
from keepstep_lab import slurm as lab_slurm
from keepstep_lab.slurm import Slurm
from tests.lazy_framework import need_framework
from tests.supervise.nodes.slurm.on_slurm import Job, Step

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.skipif(lab_slurm.missing() is not None, reason=str(lab_slurm.missing())),
]
long = pytest.mark.long


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    need_framework("torch")
    with contextlib.closing(Slurm(3, tmp_path_factory.mktemp("slurm"))) as made:
        yield made


def one_attempt_at_once(steps: list[Step]) -> bool:
    """No step of an attempt was made after the first step of a later one."""
    first: dict[tuple[int, int], float] = {}
    for each in steps:
        key = (each.life, each.attempt)
        first[key] = min(each.at, first.get(key, each.at))
    return all(each.at < at for each in steps for key, at in first.items() if key > (each.life, each.attempt))


def kill_rank(job: Job, rank: int, node: str) -> None:
    """SIGKILL, as the kernel would."""
    for pid in job.slurm.processes(node):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in words and b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes().split(
                b"\0"
            ):
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError(f"rank {rank} is not on {node}")


def comeback(job: Job, since: float, attempt: int) -> float:
    """Seconds from a fault to the first step of the attempt that followed."""
    first = min(each.at for each in job.steps() if each.attempt == attempt)
    print(f"comeback: {first - since:.1f} s")
    return first - since


@pytest.mark.long
def test_a_rank_killed_on_the_second_node_is_named_with_its_host_and_comes_back(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", nodes=2, steps=20)
    job.reached(6)
    kill_rank(job, 1, "node-2")
    struck = time.time()
    assert job.end() == "COMPLETED", job.out
    assert "node-2: rank 1 ended with SIGKILL" in job.out
    (run,) = job.runs()
    assert run["state"] == "finished" and len(run["attempts"]) == 2
    assert comeback(job, struck, 1) < 30
    assert {(each.rank, each.node, each.local, each.world) for each in job.steps()} == {
        (0, "node-1", 0, 2),
        (1, "node-2", 0, 2),
    }
    assert one_attempt_at_once(job.steps())
    assert max(each.number for each in job.steps()) == 20
    assert job.left() == {} and job.secrets() == []


@long
def test_a_healthy_job_on_two_nodes_with_two_ranks_each(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "2", nodes=2, steps=20)
    assert job.end() == "COMPLETED", job.out
    assert {(each.rank, each.node, each.local, each.world) for each in job.steps()} == {
        *[(0, "node-1", 0, 4), (1, "node-1", 1, 4)],
        *[(2, "node-2", 0, 4), (3, "node-2", 1, 4)],
    }
    assert job.left() == {} and job.secrets() == []


@long
def test_several_tasks_per_node_supervise_one_rank_each(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, nodes=2, tasks=2, steps=20)
    assert job.end() == "COMPLETED", job.out
    assert {(each.rank, each.node, each.local, each.world) for each in job.steps()} == {
        *[(0, "node-1", 0, 4), (1, "node-1", 1, 4)],
        *[(2, "node-2", 0, 4), (3, "node-2", 1, 4)],
    }
    assert len(job.runs()) == 1
    assert job.left() == {}


@long
def test_a_node_that_is_cut_off_is_named_and_replaced_by_a_spare(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=60)
    job.reached(10)
    lost = job.node_of(1)
    slurm.cut(lost)
    struck = time.time()
    job.until(lambda: True if f"{lost}, with rank 1" in job.out else None, 10)
    assert time.time() - struck < 5
    job.reached(1, attempt=1)
    assert comeback(job, struck, 1) < 60
    assert job.end() == "COMPLETED", job.out
    (run,) = job.runs()
    assert run["attempts"][0]["title"] == f"{lost}, with rank 1, went silent"
    assert {each.node for each in job.steps() if each.attempt == 1} == {*slurm.nodes} - {lost}
    assert one_attempt_at_once(job.steps())
    assert not [words for words in job.left(0.0).get(lost, []) if "train.py 60" in words and "keepstep" not in words]
    slurm.mend(lost)
    assert job.left() == {}


@long
def test_after_a_spare_took_a_seat_the_next_failure_is_survived_too(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=90, check=True)
    job.reached(10)
    lost = job.node_of(1)
    slurm.cut(lost)
    places = {0: job.node_of(0), 1: next(each for each in slurm.nodes if each not in (lost, job.node_of(0)))}
    first = job.reached(1, attempt=1).number
    job.reached(first + 10, attempt=1)
    kill_rank(job, 1, places[1])
    assert job.end() == "COMPLETED", job.out
    assert "another cluster description" not in job.out
    assert len(job.runs()[0]["attempts"]) == 3
    for attempt in (1, 2):
        assert {each.rank: each.node for each in job.steps() if each.attempt == attempt} == places
    assert one_attempt_at_once(job.steps())
    slurm.mend(lost)
    assert job.left() == {}


@long
def test_when_the_leaders_node_dies_the_next_node_leads(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=60)
    job.reached(10)
    struck = time.time()
    slurm.power_off("node-1")
    job.reached(1, attempt=1)
    assert comeback(job, struck, 1) < 120
    job.until(lambda: True if len(job.runs()) == 2 and job.runs()[-1]["state"] != "running" else None)
    run = job.runs()[-1]
    assert run["state"] == "finished" and run["host"] == "node-2"
    assert [each["number"] for each in run["attempts"]] == [0, 1]
    assert run["attempts"][0]["title"] in ("node-1, with rank 0, went silent", "node-1 went silent")
    assert {each.node for each in job.steps() if each.attempt == 1} == {"node-2", "node-3"}
    assert max(each.number for each in job.steps()) == 60
    assert one_attempt_at_once(job.steps())
    assert job.left() == {} and job.secrets() == []


@long
def test_scancel_is_one_event_for_all_nodes_and_the_script_saves(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", nodes=2, steps=1000)
    job.reached(12)
    slurm.run("scancel", str(job.id))
    assert job.end() == "CANCELLED", job.out
    assert job.left() == {}, job.out
    last = max(each.number for each in job.steps())
    assert f"saved at step {last}" in job.logs()
    (run,) = job.runs()
    assert (run["state"], run["status"]) == ("stopped", 143)
    assert job.secrets() == []


@long
def test_a_requeued_job_resumes(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", nodes=2, steps=60, sbatch=("--open-mode=append", "--requeue"))
    job.reached(12)
    slurm.run("scontrol", "requeue", str(job.id))
    job.reached(1, life=1)
    before = max(each.number for each in job.steps() if each.life == 0)
    assert min(each.number for each in job.steps() if each.life == 1) == before + 1
    assert job.end() == "COMPLETED", job.out
    assert "SLURM_RESTART_COUNT=1" in job.out
    assert [run["state"] for run in job.runs()] == ["stopped", "finished"]
    assert job.left() == {}


@long
def test_with_the_option_requeue_a_signal_before_the_end_puts_the_job_back(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(
        slurm, tmp_path, "--per-node", "1", "--requeue", nodes=2, steps=60, sbatch=("--open-mode=append", "--requeue")
    )
    job.reached(12)
    slurm.run("scancel", "--signal=TERM", str(job.id))
    job.reached(1, life=1)
    assert "goes back into the queue (--requeue)" in job.out
    assert job.end() == "COMPLETED", job.out
    assert job.left() == {}


@long
def test_when_slurm_sets_the_leaders_node_down_the_next_node_leads(slurm: Slurm, tmp_path: Path) -> None:
    """Here srun is not on that node. Of a batch job, Slurm ends the script there, and with it the job."""
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=2000, batch=False)
    job.reached(10)
    slurm.run("scontrol", "update", "nodename=node-1", "state=down", "reason=trial")
    struck = time.time()
    job.reached(1, attempt=1)
    assert comeback(job, struck, 1) < 90
    assert {each.node for each in job.steps() if each.attempt == 1} == {"node-2", "node-3"}
    assert [run["host"] for run in job.runs()] == ["node-1", "node-2"]
    slurm.run("scancel", str(job.id))
    assert job.left(40.0) == {}
    assert one_attempt_at_once(job.steps())


@long
def test_when_slurm_sets_another_node_down_a_spare_replaces_it(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=300)
    job.reached(10)
    lost = job.node_of(1)
    slurm.run("scontrol", "update", f"nodename={lost}", "state=down", "reason=trial")
    struck = time.time()
    job.reached(1, attempt=1)
    assert comeback(job, struck, 1) < 60
    assert {each.node for each in job.steps() if each.attempt == 1} == {*slurm.nodes} - {lost}
    (run,) = job.runs()
    assert run["attempts"][0]["cause"] == "network.connection_reset_peer_died"
    job.until(lambda: True if f"Slurm says {lost} is " in job.out else None, 45)
    slurm.run("scancel", str(job.id))
    assert job.left(40.0) == {}
    assert one_attempt_at_once(job.steps())


def kill_agent(job: Job, node: str) -> None:
    """SIGKILL to the agent of a node, which is the step's task there; Slurm, srun and the node live on."""
    for pid in job.slurm.processes(node):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            above = Path(f"/proc/{parent}/cmdline").read_bytes()
            mine = f"SLURMD_NODENAME={node}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if b"keepstep" in words and b"run" in words and above.startswith(b"slurmstepd") and mine:
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError(f"no agent on {node}: {job.left(0.0)}")


@long
def test_when_the_leaders_agent_is_killed_on_a_node_that_is_up_the_next_node_leads(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=60)
    job.reached(10)
    struck = time.time()
    kill_agent(job, "node-1")
    job.reached(1, attempt=1)
    assert comeback(job, struck, 1) < 90
    job.until(lambda: True if len(job.runs()) == 2 and job.runs()[-1]["state"] != "running" else None)
    run = job.runs()[-1]
    assert run["state"] == "finished" and run["host"] == "node-2"
    assert run["attempts"][0]["title"] in ("the agent on node-1, with rank 0, is gone", "the agent on node-1 is gone")
    assert "Slurm says node-1 is " in job.out and "but the agent there was killed; node-2 leads from now on" in job.out
    assert {each.node for each in job.steps() if each.attempt == 1} == {"node-2", "node-3"}
    assert max(each.number for each in job.steps()) == 60
    assert one_attempt_at_once(job.steps())
    assert job.left() == {} and job.secrets() == [] and not list((tmp_path / ".keepstep").glob("*.agent"))


@long
@pytest.mark.parametrize("leads", [False, True])
def test_a_job_that_came_back_is_completed_for_slurm_too(slurm: Slurm, tmp_path: Path, leads: bool) -> None:
    """The script's last line has the run's own status: srun's is that of the agent that was lost."""
    words = ("--per-node", "1", "--nodes", "2", "--status-file", "status-$SLURM_JOB_ID")
    job = Job(slurm, tmp_path, *words, nodes=3, steps=40, after="echo srun $?\nexit $(cat status-$SLURM_JOB_ID)")
    job.reached(10)
    kill_agent(job, "node-1" if leads else job.node_of(1))
    assert job.end() == "COMPLETED", job.out
    assert "srun 0" not in job.out, "else this shows nothing"
    assert slurm.exit_code(job.id) == "0:0"


@long
def test_a_job_that_slurm_will_call_failed_says_what_to_do(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=40)
    job.reached(10)
    kill_agent(job, job.node_of(1))
    assert job.end() == "FAILED", job.out
    assert "the run ended well, but 1 agent of it did not" in job.out and "--status-file" in job.out


@long
def test_a_node_that_comes_late_makes_the_run_larger_and_a_failure_after_that_is_survived(
    slurm: Slurm, tmp_path: Path
) -> None:
    late = tmp_path / "late.sh"
    late.write_text('#!/bin/bash\nwhile [ "$SLURM_NODEID" = 1 ] && [ ! -e go ]; do sleep 0.2; done\nexec "$@"\n')
    late.chmod(0o755)
    srun = f"srun --no-kill --kill-on-bad-exit=0 {late}"
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "1:2", nodes=2, steps=400, srun=srun)
    job.reached(6)
    assert {each.world for each in job.steps()} == {1}
    (tmp_path / "go").touch()
    grown = job.until(lambda: next((each for each in job.steps() if each.world == 2), None))
    job.reached(grown.number + 8, attempt=grown.attempt)
    kill_rank(job, 1, "node-2")
    assert job.end() == "COMPLETED", job.out
    assert "the world grows from 1 to 2 nodes" in job.out
    (run,) = job.runs()
    assert [each["happened"] for each in run["attempts"]] == ["grows", "exited", "ended well"]
    assert {(each.rank, each.node, each.world) for each in job.steps() if each.attempt == grown.attempt + 1} == {
        (0, "node-1", 2),
        (1, "node-2", 2),
    }
    assert max(each.number for each in job.steps()) == 400
    assert one_attempt_at_once(job.steps())
    assert job.left() == {}


@long
def test_where_one_machine_runs_several_slurmd_nobody_takes_over(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """There two agents once led at the same time, each of them sure that the other one was killed."""
    need_framework("torch")
    with contextlib.closing(Slurm(3, tmp_path_factory.mktemp("slurm"), together=True)) as slurm:
        job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "2", nodes=3, steps=1000)
        job.reached(10)
        assert "if the leader is lost, the run ends: node-1, node-2 and node-3 are one machine" in job.out
        kill_agent(job, "node-1")
        assert job.end() == "FAILED", job.out
        assert "so no other node may lead" in job.out
        assert len(job.runs()) == 1 and {each.attempt for each in job.steps()} == {0}
        assert job.left() == {}


@long
def test_the_leader_and_the_next_agent_are_killed_and_the_third_leads(slurm: Slurm, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "1:3", nodes=3, steps=80)
    job.reached(10)
    kill_agent(job, "node-2")
    kill_agent(job, "node-1")
    job.reached(1, attempt=1)
    job.until(lambda: True if len(job.runs()) == 2 and job.runs()[-1]["state"] != "running" else None)
    assert (job.runs()[-1]["state"], job.runs()[-1]["host"]) == ("finished", "node-3")
    assert {each.node for each in job.steps() if each.attempt == 1} == {"node-3"}
    assert one_attempt_at_once(job.steps())
    assert job.left() == {}


@long
def test_a_leader_that_lives_behind_a_firewall_is_not_replaced(slurm: Slurm, tmp_path: Path) -> None:
    """Its host refuses connections of other agents, as if nobody listened there, but Slurm reaches it."""
    job = Job(slurm, tmp_path, "--per-node", "1", "--nodes", "1:3", nodes=3, steps=1000)
    job.reached(10)
    ports = ",".join(str(port) for port in derived_ports(f"run slurm-{job.id}.0.0"))
    slurm.reject("node-1", "-p", "tcp", "-m", "multiport", "--ports", ports)
    job.reached(1, attempt=1)
    time.sleep(30)
    assert {each.node for each in job.steps() if each.attempt > 0} == {"node-1"}
    assert len(job.runs()) == 1, "nobody else leads"
    assert one_attempt_at_once(job.steps())
    slurm.run("scancel", str(job.id))
    assert job.left(40.0) == {}
