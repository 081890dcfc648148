# SPDX-License-Identifier: Apache-2.0
"""Under Yama a rank lets its supervisor look at it; elsewhere nothing is asked of the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.guard.ending import allow_tracing


@pytest.mark.parametrize("scope", [None, "0\n", "2\n", "3\n", "what\n"])
def test_nothing_is_asked_where_it_would_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str | None
) -> None:
    if scope is not None:
        (tmp_path / "ptrace_scope").write_text(scope)
    monkeypatch.setattr(allow_tracing, "YAMA", tmp_path / "ptrace_scope")
    assert not allow_tracing.let_look(os.getpid())


def test_a_kernel_that_refuses_is_no_trouble(tmp_path: Path) -> None:
    """This kernel may have no Yama: it then refuses, and the training must not notice."""
    (tmp_path / "ptrace_scope").write_text("1\n")
    program = "from pathlib import Path; from keepstep.guard.ending import allow_tracing as leave\n"
    program += f"leave.YAMA = Path({str(tmp_path / 'ptrace_scope')!r})\n"
    program += "leave.let_supervisor_look({'KEEPSTEP_SUPERVISOR': '1'}); import os, sys\n"
    program += "if os.fork() == 0: os._exit(0)\nsys.exit(os.wait()[1])"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.skipif(not allow_tracing.needs_leave(), reason="the kernel has no Yama, or it is not set to 1")
def test_under_yama_the_kernel_agrees() -> None:
    program = "import os; from keepstep.guard.ending.allow_tracing import let_look\n"
    program += "raise SystemExit(not let_look(os.getppid()))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def named_by(shell: str, supervisor: int) -> str:
    """Whom a process names whose variables say that this is its supervisor; ``shell`` starts it."""
    program = "from keepstep.guard.ending.allow_tracing import supervisor_above; print(supervisor_above())"
    env = {**os.environ, "KEEPSTEP_SUPERVISOR": str(supervisor), "PROGRAM": program, "PYTHON": sys.executable}
    return subprocess.run(["sh", "-c", shell], env=env, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.mark.parametrize("shell", ['exec "$PYTHON" -c "$PROGRAM"', 'sh -c \'"$PYTHON" -c "$PROGRAM"; true\'; true'])
def test_the_supervisor_is_named_by_those_below_it(shell: str) -> None:
    assert named_by(shell, os.getpid()) == str(os.getpid())


def test_a_number_that_belongs_to_another_process_by_now_is_not_named() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert named_by('exec "$PYTHON" -c "$PROGRAM"', other.pid) == "None"
        other.kill()
    assert named_by('exec "$PYTHON" -c "$PROGRAM"', other.pid) == "None", "it has ended"


@pytest.mark.parametrize("pid", [0, -1, (1 << 64) - 1, (1 << 32) - 1, (1 << 22) + 1])
def test_a_number_that_the_kernel_takes_for_everybody_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    (tmp_path / "ptrace_scope").write_text("1\n")
    monkeypatch.setattr(allow_tracing, "YAMA", tmp_path / "ptrace_scope")
    monkeypatch.setattr("ctypes.CDLL", lambda *words, **more: pytest.fail("the kernel was asked"))
    assert not allow_tracing.let_look(pid)
    assert allow_tracing.supervisor_above({"KEEPSTEP_SUPERVISOR": str(pid)}) is None
