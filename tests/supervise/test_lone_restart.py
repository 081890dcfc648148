# SPDX-License-Identifier: Apache-2.0
"""Parameter servers under `keepstep run`: a lost worker comes back alone, a lost server takes all with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from keepstep.supervise.start.lone_restart import LONG_S, MOST, LoneRestarts
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.started_process import StartedProcess
from tests.supervise.starting import Running, wait_for

CLUSTER = """
import json, os, pathlib, signal, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
me = f"{task['type']}{task['index']}"
starts = pathlib.Path(f"{me}-{time.time_ns()}.start")
starts.write_text(os.environ["TF_CONFIG"])
print(me, "starts", flush=True)

def starts_of(name):
    return len(list(pathlib.Path(".").glob(f"{name}-*.start")))
"""
"""A cluster of the four roles, without a framework: each start leaves a file with its TF_CONFIG."""
MEMBERS = (
    StartedProcess(rank=0, role="chief"),
    StartedProcess(rank=1, role="worker"),
    StartedProcess(rank=2, role="worker", index=1),
    StartedProcess(rank=3, role="ps"),
)
KILLED = Exit(pid=7, at=0.0, signal="SIGKILL")


def test_a_lost_worker_comes_back_alone_with_its_address_and_the_run_ends_well(tmp_path: Path) -> None:
    script = (
        CLUSTER
        + """
if me == "worker1" and starts_of(me) == 1:
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
while task["type"] != "chief" or starts_of("worker1") < 2:
    time.sleep(0.05)
time.sleep(1.0)
"""
    )
    running = Running(tmp_path, "-n", "3", "--ps", "1", script=script)
    assert running.finish() == 0, running.err
    assert len(running.manifest["attempts"]) == 1
    decision = next(
        n for n, line in enumerate(running.err.splitlines()) if "decision: restart worker 1 (rank 2) alone now" in line
    )
    assert "rank 2 ended with SIGKILL" in running.err.splitlines()[decision - 1]
    texts = {path.read_text() for path in tmp_path.glob("worker1-*.start")}
    assert len(list(tmp_path.glob("worker1-*.start"))) == 2 and len(texts) == 1
    assert [len(list(tmp_path.glob(f"{name}-*.start"))) for name in ("chief0", "worker0", "ps0")] == [1, 1, 1]
    assert "last words" in (running.run / "lost" / "attempt-0-rank2-1" / "rank2.log").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "why", str(running.run), "--json"], capture_output=True, text=True
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (0, "healthy")
    assert [each["rule"] for each in report["findings"]] == ["WRK003"]
    assert (
        report["findings"][0]["ranks"] == [2] and "was lost (SIGKILL) and came back" in report["findings"][0]["title"]
    )


def test_a_worker_that_dies_again_and_again_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    script = (
        CLUSTER
        + """
if me == "worker0":
    raise SystemExit(3)
time.sleep(120)
"""
    )
    running = Running(tmp_path, "-n", "3", "--ps", "1", script=script)
    assert running.finish() == 3, running.err
    assert len(list(tmp_path.glob("worker0-*.start"))) == 1 + MOST
    assert len(running.manifest["attempts"]) == 1
    assert "worker 0 (rank 1) was restarted 3 times and failed each time, now with exit code 3" in running.err


def test_a_lost_parameter_server_restarts_all(tmp_path: Path) -> None:
    script = (
        CLUSTER
        + """
if me == "ps0" and starts_of(me) == 1:
    while starts_of("chief0") + starts_of("worker0") < 2:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
while task["type"] != "chief" or starts_of("ps0") < 2:
    time.sleep(0.05)
"""
    )
    running = Running(tmp_path, "-n", "2", "--ps", "1", script=script)
    assert running.finish() == 0, running.err
    assert len(running.manifest["attempts"]) == 2
    assert wait_for(lambda: len(list(tmp_path.glob("chief0-*.start"))) == 2)


def test_only_workers_of_a_cluster_with_servers_come_back_alone() -> None:
    alone = LoneRestarts(servers=1)
    assert [alone.is_for(member) for member in MEMBERS] == [False, True, True, False]
    assert not LoneRestarts(servers=0).is_for(MEMBERS[1])


def test_the_budget_is_one_workers_own_and_fills_again_after_a_long_service() -> None:
    alone = LoneRestarts(servers=1)
    assert all(alone.decide(MEMBERS[1], KILLED, float(n)) for n in range(MOST))
    assert alone.decide(MEMBERS[2], KILLED, 10.0) is not None
    assert alone.decide(MEMBERS[1], KILLED, 11.0) is None and "worker 0 (rank 1)" in (alone.given_up or "")
    again = alone.decide(MEMBERS[1], KILLED, 12.0 + 2 * LONG_S)
    assert again is not None and again.times == 1
