# SPDX-License-Identifier: Apache-2.0
"""Cores of real, tiny processes that crash; foreign, cut and senseless ones made by hand."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.cause import Cause
from keepstep.model.evidence import CoverageState
from keepstep.model.facts.process import CoreDump, FatalSignal, StackDump
from keepstep.model.finding import Confidence
from keepstep.parse.formats import elf_core
from keepstep.signals.stacks import innermost_user
from keepstep.sources.stacks import gdb, process_stacks
from keepstep.sources.stacks.cores import is_core, read_core

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


IN_ZLIB = """\
import ctypes, ctypes.util

zlib = ctypes.CDLL(ctypes.util.find_library("z") or "libz.so.1")
zlib.crc32(ctypes.c_ulong(0), ctypes.c_void_p(16), ctypes.c_uint(100))
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core of a small Python program that crashed with SIGSEGV as rank 3."""
    return crash(tmp_path_factory.mktemp("crash"), CRASH)


@pytest.fixture(scope="module")
def handled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with faulthandler, whose report lies beside the core."""
    return crash(tmp_path_factory.mktemp("handled"), CRASH, "-X", "faulthandler")


def crash(folder: Path, program: str, *options: str) -> Path:
    (folder / "train.py").write_text(program)
    pattern = Path("/proc/sys/kernel/core_pattern")
    if not pattern.exists() or "/" in pattern.read_text() or pattern.read_text().startswith("|"):
        pytest.skip("this host does not write cores into the working folder")

    def unlimited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONFAULTHANDLER"} | {"RANK": "3", "WORLD_SIZE": "4"}
    command = [sys.executable, *options, "train.py"]
    with (folder / "rank3.log").open("wb") as log:
        subprocess.run(command, cwd=folder, env=environment, preexec_fn=unlimited, check=False, stdout=log, stderr=log)
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
    if not process_stacks.have_pystack():
        assert coverage.state is CoverageState.UNAVAILABLE and "pystack" in coverage.why
        return
    assert coverage.state is CoverageState.CHECKED
    struck = next(e.fact for e in evidence if isinstance(e.fact, StackDump) and e.fact.current)
    line = innermost_user(struck.frames)
    assert line is not None and (line.function, line.line) == ("train_step", 7)
    assert any(f.is_native for f in struck.frames)
    assert sum(isinstance(e.fact, StackDump) for e in evidence) == 2


SENT = """\
import os, subprocess, sys, time

send = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGFPE)"
subprocess.Popen([sys.executable, "-c", send, str(os.getpid())])
time.sleep(60)
"""
RAISED = "import os, signal\nos.kill(os.getpid(), signal.SIGFPE)\n"


def test_a_signal_that_another_process_sent_is_no_crash(tmp_path: Path) -> None:
    core = crash(tmp_path, SENT)
    evidence, _ = read_core(core, core.name, None)
    dump = next(e.fact for e in evidence if isinstance(e.fact, CoreDump))
    assert dump.signal == "SIGFPE" and dump.sent_by not in (None, 0, dump.pid)
    assert not any(isinstance(e.fact, FatalSignal) for e in evidence)
    (tmp_path / "rank3.log").write_text(
        f"W torch.distributed.elastic: failed (exitcode: -8) local_rank: 0 (pid: {dump.pid}) of binary: python\n"
    )
    root = explain_paths([tmp_path]).report.root
    assert root is not None
    assert (root.cause, root.ranks) == (Cause.UNKNOWN_NOT_ESTABLISHED, (3,))
    assert root.title == f"rank 3 did not crash: process {dump.sent_by} sent it SIGFPE; nothing shows why"


def test_a_signal_that_a_process_sent_itself_stays_a_crash(tmp_path: Path) -> None:
    core = crash(tmp_path, RAISED)
    evidence, _ = read_core(core, core.name, None)
    assert any(isinstance(e.fact, FatalSignal) and e.fact.signal == "SIGFPE" for e in evidence)


def test_without_pystack_and_gdb_the_notes_are_still_told(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_stacks, "have_pystack", lambda: False)
    monkeypatch.setenv("PATH", "/nonexistent")
    evidence, (coverage,) = read_core(core, core.name, None)
    crash = next(e.fact for e in evidence if isinstance(e.fact, FatalSignal))
    assert crash.signal == "SIGSEGV" and crash.library is not None
    assert coverage.state is CoverageState.UNAVAILABLE
    assert "pystack is not installed" in coverage.why and "gdb is not installed" in coverage.why


needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")


@needs_gdb
@pytest.mark.parametrize("which", ["core", "handled"])
def test_without_pystack_gdb_gives_the_native_frames(
    which: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    core: Path = request.getfixturevalue(which)
    monkeypatch.setattr(process_stacks, "have_pystack", lambda: False)
    evidence, (coverage,) = read_core(core, core.name, None)
    struck = next(e.fact for e in evidence if isinstance(e.fact, StackDump))
    functions = [f.function for f in struck.frames]
    assert "raise" not in " ".join(functions[:2]), "what faulthandler did is not where it crashed"
    assert any("_ctypes" in (f.library or "") or f.function == "ffi_call" for f in struck.frames)
    assert "_PyEval_EvalFrameDefault" in functions
    assert coverage.what == f"Python lines of core {core.name}" and "without Python lines" in coverage.why


@needs_gdb
def test_gdb_reads_only_those_libraries_in_which_a_frame_lies(tmp_path: Path) -> None:
    path = crash(tmp_path, IN_ZLIB)
    with path.open("rb") as file:
        notes = elf_core.read(file.read())
    assert notes.executable is not None
    found = gdb.core_frames(path, Path(notes.executable), notes)
    assert found is not None and found.main is not None
    frames = found.main.frames
    assert frames[0].library is not None and frames[0].library.startswith("libz")
    assert any(f.function == "_PyEval_EvalFrameDefault" for f in frames)


@needs_gdb
def test_native_frames_of_gdb_and_faulthandlers_python_line_establish_whose_crash_it_was(
    handled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_stacks, "have_pystack", lambda: False)
    root = explain_paths([handled.parent]).report.root
    assert root is not None
    assert (root.cause, root.ranks, root.confidence) == (Cause.USER_NATIVE_CRASH, (3,), Confidence.ESTABLISHED)
    assert "a ctypes call at train.py:7, in train_step()" in root.title
    assert "rank3.log" in root.because and handled.name in root.because


@needs_gdb
def test_native_frames_of_gdb_alone_tell_of_a_call_through_ctypes(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_stacks, "have_pystack", lambda: False)
    root = explain_paths([core]).report.root
    assert root is not None
    assert (root.cause, root.ranks, root.confidence) == (Cause.USER_NATIVE_CRASH, (3,), Confidence.HYPOTHESIS)
    assert "a call through ctypes" in root.title


@pytest.mark.skipif(not process_stacks.have_pystack(), reason="pystack is not installed")
def test_a_note_that_patchelf_moved_does_not_make_a_core_unreadable(core: Path, tmp_path: Path) -> None:
    """A library's note seems to lie where another library's build id is: libdw then refuses the whole core."""
    data = bytearray(core.read_bytes())
    libraries = []
    for kind, offset, address, size in headers(data, 0):
        if kind == 1 and size >= 4096 and data[offset : offset + 4] == b"\x7fELF":
            notes = [at for at, inner in enumerate(headers(data, offset)) if inner[0] == 4]
            of_build = [n for n in notes if b"\3\0\0\0GNU\0" in note(data, offset, n)]
            if of_build:
                libraries.append((address, offset, notes[0], of_build[0]))
    (here, first, moved, _), (there, second, _, wanted) = libraries[1], libraries[-2]
    table, other = first + 64 + 56 * moved, second + 64 + 56 * wanted
    data[table : table + 56] = data[other : other + 56]
    (begin,) = struct.unpack_from("<Q", data, other + 8)
    struct.pack_into("<Q", data, table + 8, there - here + begin)
    path = tmp_path / "core.moved"
    path.write_bytes(data)
    by_itself = subprocess.run(
        [sys.executable, "-m", "pystack", "core", str(path), sys.executable], capture_output=True, check=False
    )
    if by_itself.returncode == 0:
        pytest.skip("this libdw reads it by itself")
    evidence, (coverage,) = read_core(path, path.name, None)
    assert coverage.state is CoverageState.CHECKED, coverage.why
    struck = next(e.fact for e in evidence if isinstance(e.fact, StackDump) and e.fact.current)
    line = innermost_user(struck.frames)
    assert line is not None and (line.function, line.line) == ("train_step", 7)
    assert path.read_bytes() == data


def headers(data: bytearray, start: int) -> list[tuple[int, int, int, int]]:
    """Type, offset, address and size in the file of each program header of a 64-bit ELF image."""
    (first,) = struct.unpack_from("<Q", data, start + 32)
    (count,) = struct.unpack_from("<H", data, start + 56)
    found = []
    for at in range(start + first, start + first + 56 * count, 56):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, at)
        found.append((kind, offset, address, size))
    return found


def note(data: bytearray, start: int, number: int) -> bytes:
    _, offset, _, size = headers(data, start)[number]
    return bytes(data[start + offset : start + offset + size]) if offset + size <= 4096 else b""


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
