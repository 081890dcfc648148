# SPDX-License-Identifier: Apache-2.0
"""What `keepstep run` collects and tells: cores, metrics, roles, the list of runs. Real processes, no framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.supervise.start.core_files import place
from tests.supervise.starting import Running, why


def test_a_core_file_is_found_or_it_is_said_why_not(tmp_path: Path) -> None:
    script = "import os, time, ctypes\nif os.environ['RANK'] == '1': ctypes.string_at(0)\ntime.sleep(60)"
    run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert run.finish() == 139
    attempt = run.run / "attempt-0"
    if place().why_none(1) is None:
        (core,) = (attempt / "cores").iterdir()
        assert core.stat().st_size > 1000
        assert core.is_symlink() == place().pattern.startswith("/"), "next to the script none is left"
        core.resolve().unlink()
    else:
        assert "core file of rank1" in (attempt / "exits.jsonl").read_text()
    assert "SIGSEGV" in run.err and "rank 1" in run.err


def test_parameter_servers_end_with_the_chief(tmp_path: Path) -> None:
    script = """
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("role", task["type"], flush=True)
time.sleep(1 if task["type"] == "chief" else 600)
"""
    run = Running(tmp_path, "-n", "2", "--ps", "1", "--grace", "1", script=script)
    assert run.finish() == 0, run.err
    assert "role ps" in run.log(2) and "role chief" in run.log(0)
    assert run.manifest["roles"] == ["chief", "worker", "ps"]


def test_metrics_are_kept_while_it_runs(tmp_path: Path) -> None:
    script = "import time\nblock = b'x' * (50 << 20)\ntime.sleep(2)"
    run = Running(tmp_path, "-n", "2", script=script)
    assert run.finish() == 0
    lines = [json.loads(line) for line in (run.run / "attempt-0" / "metrics.jsonl").read_text().splitlines()]
    assert lines and set(lines[0]["ranks"]) == {"0", "1"}
    assert lines[0]["memory"]["total"] > 0 and lines[0]["disks"]


def test_runs_are_listed_and_explained_by_name(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "1", "--name", "first", script="raise SystemExit('no data')")
    assert run.finish() == 1
    listed = subprocess.run([sys.executable, "-m", "keepstep", "runs"], cwd=tmp_path, capture_output=True, text=True)
    assert "-first" in listed.stdout and "failed 1" in listed.stdout
    said = json.loads(
        subprocess.run(
            [sys.executable, "-m", "keepstep", "runs", "--json"], cwd=tmp_path, capture_output=True, text=True
        ).stdout
    )
    assert said[0]["status"] == 1 and said[0]["state"] == "failed"
    by_name = subprocess.run(
        [sys.executable, "-m", "keepstep", "why", "last"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert by_name.stdout == why(run.run) and by_name.stdout in run.err


def test_what_the_supervisor_wrote_is_not_read_as_a_log(tmp_path: Path) -> None:
    run = Running(
        tmp_path, "-n", "1", script="print('Traceback (most recent call last)\\nValueError: x')\nraise ValueError('x')"
    )
    assert run.finish() == 1
    assert "1 log " in why(run.run)


def test_a_transient_failure_comes_back(tmp_path: Path) -> None:
    script = """
import os, signal, time
rank, attempt = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"]
print("attempt", attempt, os.environ["MASTER_PORT"], flush=True)
if rank == "0": open("up", "w").close()
while not os.path.exists("up"): time.sleep(0.01)
if rank == "1" and attempt == "0": os.kill(os.getpid(), signal.SIGKILL)
"""
    run = Running(tmp_path, "-n", "2", script=script)
    assert run.finish() == 0, run.err
    assert [each["number"] for each in run.manifest["attempts"]] == [0, 1]
    assert "attempt 1" in run.log(0, attempt=1)
    assert run.log(0).split()[2] != run.log(0, attempt=1).split()[2], "ports are new"


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory").is_dir(), reason="makes a control group (version 1)"
)
def test_a_kill_by_a_control_group_is_told_from_others(tmp_path: Path) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"keepstep-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
        script = f"""
import os, time
if os.environ["RANK"] == "1":
    open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
    time.sleep(1.5)
    blocks = [b"x" * (1 << 20) for _ in range(200)]
time.sleep(60)
"""
        run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
        assert run.finish() == 137
        assert "resource.host_oom_killed" in run.err and "rank 1" in run.err
    finally:
        group.rmdir()


LEAKS = """
import os, time, keepstep
held = []
leaks = os.environ["RANK"] == "1"
for step in keepstep.guard.attach().steps(range({steps} if leaks else 100_000)):
    if leaks:
        held.append(b"x" * (2 << 20))
    elif os.path.exists("done"):
        break
    time.sleep(0.02)
open("done", "w").close()
"""


def test_memory_that_rises_is_told_and_nothing_is_ended_for_it(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "2", "--no-spares", script=LEAKS.format(steps=400))
    assert run.finish() == 0, run.err
    assert "memory of rank 1 kept growing during training" in run.err
    assert "resource.memory_leak" in run.err and "resource.memory_leak" in why(run.run)
    assert len(run.manifest["attempts"]) == 1


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory").is_dir(), reason="makes a control group (version 1)"
)
def test_memory_that_rose_until_the_kernel_killed_began_it(tmp_path: Path) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"keepstep-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(600 << 20))
        enters = f"""
import os
if os.environ["RANK"] == "1":
    open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
"""
        run = Running(
            tmp_path, "-n", "2", "--no-spares", "--max-attempts", "1", script=enters + LEAKS.format(steps=5000)
        )
        assert run.finish() == 137
        assert run.manifest["attempts"][0]["cause"] == "resource.memory_leak", run.err
        assert "memory of rank 1 kept growing" in run.err
    finally:
        group.rmdir()
