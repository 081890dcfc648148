# SPDX-License-Identifier: Apache-2.0
"""Cores of real, tiny processes that crash; foreign, cut and senseless ones made by hand."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.core.evidence import CoverageState
from keepstep.core.facts.process import CoreDump, FatalSignal, StackDump
from keepstep.core.stacks import innermost_user
from keepstep.sources import stacks
from keepstep.sources.cores import is_core, read_core

CRASH = """\
import ctypes, threading, time

def loader():
    time.sleep(100)

def train_step():
    ctypes.string_at(16)

threading.Thread(target=loader, daemon=True).start()
time.sleep(0.1)
train_step()
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core of a small Python program that was struck by SIGSEGV as rank 3."""
    folder = tmp_path_factory.mktemp("crash")
    (folder / "train.py").write_text(CRASH)
    pattern = Path("/proc/sys/kernel/core_pattern")
    if not pattern.exists() or "/" in pattern.read_text() or pattern.read_text().startswith("|"):
        pytest.skip("this host does not write cores into the working folder")

    def unlimited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    environment = {**os.environ, "RANK": "3", "WORLD_SIZE": "4"}
    command = [sys.executable, "train.py"]
    subprocess.run(command, cwd=folder, env=environment, preexec_fn=unlimited, check=False, capture_output=True)
    cores = [path for path in folder.iterdir() if path.name.startswith("core")]
    if not cores:
        pytest.skip("no core was written")
    return cores[0]


def test_a_core_gives_signal_rank_and_the_users_line(core: Path) -> None:
    assert is_core(core)
    evidence, (coverage,) = read_core(core, core.name, None)
    dump = next(e for e in evidence if isinstance(e.fact, CoreDump))
    assert dump.rank is not None and dump.rank.index == 3
    assert (dump.fact.signal, dump.fact.address) == ("SIGSEGV", 16)
    if not stacks.have_pystack():
        assert coverage.state is CoverageState.UNAVAILABLE and "pystack" in coverage.why
        return
    assert coverage.state is CoverageState.CHECKED
    struck = next(e.fact for e in evidence if isinstance(e.fact, StackDump) and e.fact.current)
    line = innermost_user(struck.frames)
    assert line is not None and (line.function, line.line) == ("train_step", 7)
    assert any(f.is_native for f in struck.frames)
    assert sum(isinstance(e.fact, StackDump) for e in evidence) == 2


def test_without_pystack_and_gdb_the_notes_are_still_told(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "have_pystack", lambda: False)
    monkeypatch.setenv("PATH", "/nonexistent")
    evidence, (coverage,) = read_core(core, core.name, None)
    crash = next(e.fact for e in evidence if isinstance(e.fact, FatalSignal))
    assert crash.signal == "SIGSEGV" and crash.library is not None
    assert coverage.state is CoverageState.UNAVAILABLE
    assert "pystack is not installed" in coverage.why and "gdb is not installed" in coverage.why


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_without_pystack_gdb_gives_the_native_frames(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "have_pystack", lambda: False)
    evidence, (coverage,) = read_core(core, core.name, None)
    struck = next(e.fact for e in evidence if isinstance(e.fact, StackDump))
    assert len(struck.frames) > 3
    assert "without Python lines" in coverage.why


def test_a_cut_core_gives_what_is_left(core: Path, tmp_path: Path) -> None:
    cut = tmp_path / "core.cut"
    cut.write_bytes(core.read_bytes()[: core.stat().st_size // 3])
    evidence, (coverage,) = read_core(cut, "core.cut", None)
    assert next(e.fact for e in evidence if isinstance(e.fact, CoreDump)).signal == "SIGSEGV"
    assert "cut off" in coverage.why


def test_a_core_of_another_machine_says_so(core: Path, tmp_path: Path) -> None:
    other, name = (183, "aarch64") if platform.machine() == "x86_64" else (62, "x86_64")
    data = bytearray(core.read_bytes())
    data[18:20] = other.to_bytes(2, "little")
    foreign = tmp_path / "core.foreign"
    foreign.write_bytes(data)
    evidence, (coverage,) = read_core(foreign, "core.foreign", None)
    assert isinstance(evidence[0].fact, CoreDump) and evidence[0].fact.machine == name
    assert coverage.state is CoverageState.UNAVAILABLE and name in coverage.why


def test_a_program_that_is_not_here_is_named(core: Path, tmp_path: Path) -> None:
    real = os.path.realpath(sys.executable).encode()
    elsewhere = tmp_path / "core.elsewhere"
    elsewhere.write_bytes(core.read_bytes().replace(real, b"/q" + real[2:]))
    _, (coverage,) = read_core(elsewhere, "core.elsewhere", None)
    assert coverage.state is CoverageState.UNAVAILABLE
    assert "is not on this machine" in coverage.why


@pytest.mark.parametrize("data", [b"", b"junk", b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x04\0\x3e\0" + b"\xff" * 60])
def test_junk_gives_a_line_of_coverage_and_nothing_else(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "core.junk"
    path.write_bytes(data)
    evidence, (coverage,) = read_core(path, "core.junk", None)
    assert evidence == []
    assert coverage.state is CoverageState.UNAVAILABLE and coverage.why
