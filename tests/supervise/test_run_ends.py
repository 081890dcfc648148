# SPDX-License-Identifier: Apache-2.0
"""How `keepstep run` ends: statuses, Ctrl-C, a killed supervisor. Real processes, no framework."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.supervise.starting import Running, wait_for, why

STEPS = """
import os, sys, time
rank = int(os.environ["RANK"])
for step in range({steps}):
    print("step", step, flush=True)
    time.sleep(0.02)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids_in(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("pid-*") if path.read_text().strip()]


def test_all_ranks_end_well(tmp_path: Path) -> None:
    run = Running(
        tmp_path, "-n", "3", script=STEPS.format(steps=5) + "print('world', os.environ['WORLD_SIZE'], 'of', rank)"
    )
    assert run.finish() == 0
    assert "rank 2 | world 3 of 2" in run.out
    assert "world 3 of 1" in run.log(1)
    assert run.manifest["state"] == "finished" and run.manifest["status"] == 0
    assert "finished with status 0" in run.err


def test_a_users_exception_ends_the_run_at_once_with_its_status(tmp_path: Path) -> None:
    script = STEPS.format(steps=5) + "if rank == 1: raise KeyError('learning_rate')\ntime.sleep(60)"
    run = Running(tmp_path, "-n", "2", script=script)
    began = time.monotonic()
    assert run.finish() == 1
    assert time.monotonic() - began < 30
    assert len(run.manifest["attempts"]) == 1
    assert run.manifest["attempts"][0]["cause"] == "user.code_exception"
    assert "end the run" in run.err and "KeyError" in run.err
    assert why(run.run) in run.err, "`keepstep why RUN` says what the run said"
    assert all(line.startswith("rank ") for line in run.out.splitlines()), "standard output is the job's"


@pytest.mark.parametrize("status", [0, 3])
def test_the_status_is_also_in_the_file_that_was_asked_for(tmp_path: Path, status: int) -> None:
    path = tmp_path / "status"
    path.write_text("7\n")  # of an earlier run
    script = f"import os, sys, time\nwhile os.path.exists('status'): time.sleep(0.01)\nsys.exit({status})\n"
    run = Running(tmp_path, "-n", "1", "--max-attempts", "1", "--status-file", "status", script=script)
    assert run.finish() == status, run.err
    assert path.read_text() == f"{status}\n"


def test_a_status_file_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "1", "--status-file", "absent/status", script="open('ran', 'w')")
    assert run.finish() == 2
    assert "--status-file absent/status cannot be written" in run.err and not (tmp_path / "ran").exists()


def test_the_status_is_that_of_the_first_rank_that_failed(tmp_path: Path) -> None:
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(60)"
    run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert run.finish() == 7


def test_a_signal_is_128_and_its_number(tmp_path: Path) -> None:
    script = (
        "import os, signal, time\nif os.environ['RANK'] == '0': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
    )
    run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert run.finish() == 137


def test_a_death_is_noticed_within_half_a_second(tmp_path: Path) -> None:
    script = (
        "import os, signal, time\nprint('up', flush=True)\nif os.environ['RANK'] == '1':\n"
        "  time.sleep(1); open('died', 'w').write(str(time.time())); os._exit(3)\ntime.sleep(60)"
    )
    run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert run.finish() == 3
    exits = (run.run / "attempt-0" / "exits.jsonl").read_text()
    noticed = __import__("json").loads(exits.splitlines()[0])["at"]
    assert noticed - float((tmp_path / "died").read_text()) < 0.5


def test_ctrl_c_gives_ranks_time_to_save_and_says_130(tmp_path: Path) -> None:
    script = """
import os, signal, sys, time
def save(number, frame):
    open(f"saved-{os.environ['RANK']}", "w").write("x"); sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(f"pid-{os.environ['RANK']}", "w").write(str(os.getpid()))
while True: time.sleep(0.1)
"""
    run = Running(tmp_path, "-n", "2", script=script)
    wait_for(lambda: len(pids_in(tmp_path)) == 2)
    run.process.send_signal(signal.SIGINT)
    assert run.finish() == 130
    assert (tmp_path / "saved-0").exists() and (tmp_path / "saved-1").exists()
    assert run.manifest["state"] == "stopped"


@pytest.mark.parametrize(
    ("sent", "told"),
    [(signal.SIGINT, "the user ended the run (Ctrl-C)"), (signal.SIGTERM, "the run was ended from outside (SIGTERM)")],
    ids=["SIGINT", "SIGTERM"],
)
@pytest.mark.parametrize("how", [("-n", "2"), pytest.param((), marks=pytest.mark.long)], ids=["ranks", "as given"])
def test_the_report_names_the_signal_that_ended_the_run(
    tmp_path: Path, how: tuple[str, ...], sent: int, told: str
) -> None:
    script = (
        "import os, time\nopen(f\"pid-{os.environ.get('RANK', 0)}\", 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    )
    run = Running(tmp_path, *how, script=script)
    wait_for(lambda: len(pids_in(tmp_path)) == (2 if how else 1))
    run.process.send_signal(sent)
    assert run.finish() == 128 + sent
    assert told in why(run.run, "--no-kernel-log")  # other tests have processes killed meanwhile


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"pid-{os.environ['RANK']}", "w").write(str(os.getpid()))
while True: time.sleep(0.1)
"""
    run = Running(tmp_path, "-n", "2", "--grace", "1", script=script)
    wait_for(lambda: len(pids_in(tmp_path)) == 2)
    run.process.send_signal(signal.SIGTERM)
    assert run.finish() == 143
    assert not any(map(alive, pids_in(tmp_path)))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_supervisor_leaves_nobody(tmp_path: Path) -> None:
    """A rank behind a shell, its forked workers, one that left its session, and one that wiped its environment."""
    script = """
import os, subprocess, sys, time
rank = os.environ["RANK"]
def note(name): open(f"pid-{rank}-{name}", "w").write(str(os.getpid()))
for n in range(2):
    if os.fork() == 0:
        note(f"worker{n}")
        while True: time.sleep(1)
if os.fork() == 0:
    os.setsid()
    note("daemon")
    while True: time.sleep(1)
bare = f"import os, time; open('pid-{rank}-bare', 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", bare], env={})
note("rank")
while True: time.sleep(1)
"""
    run = Running(tmp_path, "-n", "2", script=script, command=["bash", "-c", f"{sys.executable} train.py; exit $?"])
    pids = wait_for(lambda: pids if len(pids := pids_in(tmp_path)) == 10 else None)
    os.kill(run.process.pid, signal.SIGKILL)
    began = time.monotonic()
    wait_for(lambda: not any(map(alive, pids)))
    took = time.monotonic() - began
    run.kill()
    assert took < 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_supervisor_leaves_nothing_in_shared_memory(tmp_path: Path) -> None:
    script = """
import time, keepstep
for step in keepstep.guard.attach().steps(range(100_000)): time.sleep(0.01)
"""
    run = Running(tmp_path, "-n", "2", script=script)
    boxes = wait_for(lambda: found if len(found := list(run.run.glob("attempt-0/guard/*.box"))) == 2 else None)
    in_memory = [Path(os.readlink(box)) for box in boxes]
    warm = list(Path("/dev/shm").glob(f"keepstep-warm-{run.process.pid}-*"))
    assert warm and all(box.exists() for box in in_memory)
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for(lambda: not any(box.is_symlink() for box in boxes) and not warm[0].exists())
    run.kill()
    assert all(box.is_file() for box in boxes)
    assert not any(box.exists() for box in in_memory)
    assert "2 black boxes" in why(run.run)


def test_workers_of_a_dead_rank_do_not_outlive_the_run(tmp_path: Path) -> None:
    script = """
import os, time
if os.environ["RANK"] == "0" and os.fork() == 0:
    open("pid-worker", "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists("pid-worker"): time.sleep(0.01)
"""
    run = Running(tmp_path, "-n", "2", script=script)
    assert run.finish() == 0
    assert not any(map(alive, pids_in(tmp_path)))


def test_a_program_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "2", script="", command=["no-such-program"])
    assert run.finish() == 2
    assert "program no-such-program not found" in run.err


@pytest.mark.parametrize(
    ("leave", "status"), [('raise SystemExit("bad arguments")', 1), ("exit(3)", 3), ("sys.exit(3)", 3)]
)
def test_a_rank_that_exits_is_told_with_its_line_though_an_exit_handler_waits(
    tmp_path: Path, leave: str, status: int
) -> None:
    """As a JAX process does, whose shutdown waits for all others."""
    script = f"""
import atexit, os, sys, time
def main():
    if os.environ["RANK"] == "1":
        atexit.register(time.sleep, 300)
        {leave}
    time.sleep(300)
main()
"""
    run = Running(tmp_path, "-n", "2", "--grace", "1", "--max-attempts", "1", script=script)
    assert run.finish(60) != 0
    words = ": bad arguments" if "bad" in leave else ""
    assert f"decision: end the run: rank 1 ended itself with status {status} in train.py:6{words}" in run.err, run.err
