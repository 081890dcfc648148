# SPDX-License-Identifier: Apache-2.0
"""Real ranks under `keepstep run`: all stop, or save, after the same step, whoever was asked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.errors import Unavailable, UserError
from keepstep.guard.together.stop_notices import StopNotices, grace_s
from keepstep.store.run_folders import DEFAULT
from keepstep.supervise.save_now import save_now

SCRIPT = Path(__file__).with_name("together_ranks.py")
LIMIT_S = 120.0


@contextlib.contextmanager
def job(folder: Path, what: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "keepstep", "run", "-n", "2", "--no-check", "--max-attempts", "1", *options]
    with subprocess.Popen(
        [*command, "--", sys.executable, str(SCRIPT), what],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: object, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came to that"
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def both(folder: Path, name: str) -> bool:
    files = [folder / f"{name}-{rank}" for rank in (0, 1)]
    return all(path.exists() and path.read_text() for path in files)


def saved(folder: Path, name: str = "saved") -> list[int]:
    return [int((folder / f"{name}-{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["all", "hook", "evaluation"])
def test_sigterm_to_the_run_stops_all_ranks_after_the_same_step(tmp_path: Path, what: str) -> None:
    with job(tmp_path, what, "--grace", "60") as process:
        until(lambda: both(tmp_path, "ready"), process)
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=LIMIT_S)[0]
    first, second = saved(tmp_path)
    assert first == second, printed
    assert process.returncode == 143, printed
    assert "SIGTERM, 60 s are left: all ranks stop after the same step" in printed


@pytest.mark.slow
def test_a_rank_that_will_not_save_in_time_says_so_before_it_is_killed(tmp_path: Path) -> None:
    with job(tmp_path, "long evaluation", "--grace", "12") as process:
        until((tmp_path / "evaluates").exists, process)
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=LIMIT_S)[0]
    assert "rank 0: SIGTERM, 12 s are left: all ranks stop after the same step, once the evaluation is over" in printed
    assert "are left, and this rank is still in its evaluation: it may not save in time" in printed


@pytest.mark.slow
def test_sigterm_to_one_rank_stops_the_others_too(tmp_path: Path) -> None:
    with job(tmp_path, "one") as process:
        printed = process.communicate(timeout=LIMIT_S)[0]
    first, second = saved(tmp_path)
    assert first == second, printed
    assert "rank 0: SIGTERM on rank 1, 10 s are left" in printed, printed


@pytest.mark.slow
def test_a_running_job_saves_when_it_is_asked_and_goes_on(tmp_path: Path) -> None:
    with job(tmp_path, "all") as process:
        until(lambda: both(tmp_path, "ready"), process)
        (run,) = (tmp_path / DEFAULT).iterdir()
        for _ in range(2):
            found = save_now(run, LIMIT_S)
            assert found.ranks == 2
            until(lambda: both(tmp_path, "on-request"), process)
            first, second = saved(tmp_path, "on-request")
            assert first == second
            assert found.step is not None
            assert abs(first - found.step) <= 1
            for rank in (0, 1):
                (tmp_path / f"on-request-{rank}").unlink()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
    with pytest.raises(UserError, match=r"no rank of .* is running"):
        save_now(run)


@pytest.mark.slow
def test_a_script_that_does_not_listen_is_not_asked_to_save(tmp_path: Path) -> None:
    with job(tmp_path, "deaf") as process:
        until(lambda: both(tmp_path, "ready"), process)
        (run,) = (tmp_path / DEFAULT).iterdir()
        with pytest.raises(Unavailable, match=r"2 of 2 ranks have not called keepstep.should_save\(\)"):
            save_now(run)


@pytest.mark.slow
def test_a_forked_child_still_ends_by_sigterm(tmp_path: Path) -> None:
    with job(tmp_path, "fork") as process:
        until(lambda: both(tmp_path, "child"), process)
    assert saved(tmp_path, "child") == [-signal.SIGTERM] * 2


# --- how a process learns of it


@pytest.fixture
def sigterm() -> Iterator[None]:
    before, wakeup = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    yield
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, before)


def test_handlers_that_were_there_are_called_too(sigterm: None) -> None:
    heard: list[str] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append("before"))
    notices = StopNotices(lambda: 3, {"KEEPSTEP_GRACE": "25"})
    notices.listen()
    mine = signal.getsignal(signal.SIGTERM)
    assert notices.new(0.0) is None
    native = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: heard.append("native"))
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGTERM, ctypes.cast(native, ctypes.c_void_p))  # as JAX does when it is initialised
    notices._due = 0.0
    notices.listen()
    assert signal.getsignal(signal.SIGTERM) is not mine
    os.kill(os.getpid(), signal.SIGTERM)
    reason = notices.new(0.0)
    assert reason is not None
    assert (reason.by, reason.rank, reason.left_s) == ("SIGTERM", 3, 25.0)
    assert heard == ["native", "before"]
    assert notices.new(0.0) is None, "it is one event"


def test_slurms_time_limit_is_a_notice_in_time_for_a_save() -> None:
    env = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time()) + 1000)}
    notices = StopNotices(lambda: None, env)
    assert notices.new(needs_s=400.0) is None
    reason = notices.new(needs_s=600.0)
    assert reason is not None
    assert reason.by == "Slurm's time limit"
    assert reason.left_s is not None and 900 < reason.left_s <= 1000


@pytest.mark.parametrize(
    ("env", "known"),
    [({}, None), ({"KUBERNETES_SERVICE_HOST": "x"}, 30.0), ({"SLURM_JOB_ID": "7", "KEEPSTEP_GRACE": "5"}, 5.0)],
)
def test_how_long_a_process_has_after_sigterm(env: dict[str, str], known: float | None) -> None:
    assert grace_s(env) == known
