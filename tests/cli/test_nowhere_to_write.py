# SPDX-License-Identifier: Apache-2.0
"""A full disk, a reader that left, a folder that may not be read: said in plain words, with the right status."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.store import run_folders

FAILED = (
    b'[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 7, in <module>\n[rank1]: KeyError: 1\n'
)
FULL = Path("/dev/full")
WHY = ("why", "--no-kernel-log", "a.log")
EVERY_VERB = {
    "why": WHY,
    "why --json": (*WHY, "--json"),
    "check": ("check", "env"),
    "check code": ("check", "code", "a.py"),
    "check data": ("check", "data", "a.npy"),
    "runs": ("runs",),
    "runs --json": ("runs", "--json"),
    "rules": ("rules",),
    "rules show": ("rules", "show", "NET002"),
    "completion": ("completion", "bash"),
    "manual": ("manual",),
    "help": ("--help",),
    "version": ("--version",),
    "lab": ("lab", "list"),
}

QUICK = ("why", "rules", "help")
VERBS = [pytest.param(verb, marks=[] if verb in QUICK else [pytest.mark.long]) for verb in EVERY_VERB]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full and /proc are Linux's")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.log").write_bytes(FAILED)
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "a.npy").write_bytes(
        b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}".ljust(127) + b"\nabcd"
    )
    return tmp_path


def keepstep(
    folder: Path, *words: object, unbuffered: bool = False, **options: object
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    command = [sys.executable, "-m", "keepstep", *map(str, words)]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": folder, "env": environment, **options}
    done = subprocess.run(command, text=True, timeout=120, check=False, **settings)  # type: ignore[call-overload]
    assert "Traceback" not in (done.stderr or "") and "itself broke" not in (done.stderr or "")
    assert "Exception ignored" not in (done.stderr or "")
    assert not (folder / "state" / "keepstep" / "broke").exists()
    return done  # type: ignore[no-any-return]


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_below_standard_output_is_said(folder: Path, verb: str) -> None:
    for unbuffered in (False, True) if verb in ("why", "rules") else (False,):
        with FULL.open("w") as full:
            done = keepstep(folder, *EVERY_VERB[verb], stdout=full, unbuffered=unbuffered)
        assert done.returncode == 3
        assert "standard output cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_that_left_changes_nothing(folder: Path, verb: str) -> None:
    """`| head`: the status is the one that the verb has anyway, and nothing is said."""
    whole = keepstep(folder, *EVERY_VERB[verb])
    reading, writing = os.pipe()
    os.close(reading)
    try:
        cut = keepstep(folder, *EVERY_VERB[verb], stdout=writing)
    finally:
        os.close(writing)
    assert (cut.returncode, cut.stderr) == (whole.returncode, whole.stderr)


def test_a_full_disk_below_standard_error_costs_only_the_words(folder: Path) -> None:
    with FULL.open("w") as full:
        assert keepstep(folder, *WHY, "--html", "page.html", stderr=full).returncode == 1
        assert keepstep(folder, "why", stderr=full).returncode == 2


def test_run_passes_the_jobs_status_on_with_nowhere_to_print(folder: Path) -> None:
    for descriptor in (os.open(FULL, os.O_WRONLY), os.open(os.devnull, os.O_WRONLY)):
        job = (
            "run",
            "--no-check",
            "--max-attempts",
            "1",
            "--",
            sys.executable,
            "-c",
            "print('x' * 9999); raise SystemExit(7)",
        )
        done = keepstep(folder, *job, stdout=descriptor)
        os.close(descriptor)
        assert done.returncode == 7


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_page_or_bundle_that_does_not_fit_leaves_nothing_behind(folder: Path) -> None:
    with small_disk(folder / "disk"):
        (folder / "disk" / "page.html").write_text("of before")
        (folder / "disk" / "filler").write_bytes(b"x" * 8192)
        for option, name in (("--html", "page.html"), ("--bundle", "b.tar.gz")):
            done = keepstep(folder, *WHY, option, f"disk/{name}", "--force")
            assert done.returncode == 3
            assert f"cannot write disk/{name}: No space left on device" in done.stderr
            assert "KeyError" in done.stdout  # the report itself was printed
        assert sorted(path.name for path in (folder / "disk").iterdir()) == ["filler", "page.html"]
        assert (folder / "disk" / "page.html").read_text() == "of before"


def test_a_device_or_pipe_is_never_replaced(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    done = keepstep(folder, *WHY, "--bundle", "pipe", "--force")
    assert done.returncode == 2 and "not a regular file" in done.stderr
    assert (folder / "pipe").is_fifo()
    done = keepstep(folder, *WHY, "--html", FULL, "--force")
    assert done.returncode == 3 and "No space left" in done.stderr
    assert FULL.is_char_device()


def without_roots_rights() -> None:
    """In the child: root without the right to read and write everything, like any user."""
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)


def made_run(root: Path, name: str) -> Path:
    run = run_folders.create(root, ["train.py"], name=name, ranks=2, version="1")
    run.manifest.state, run.manifest.began, run.manifest.ended = "finished", 1e9, 1e9
    run.save()
    run.reserve.close()
    return run.path


def test_runs_that_may_not_be_read_are_said(folder: Path) -> None:
    root = folder / ".keepstep" / "runs"
    mine, theirs = made_run(root, "mine"), made_run(root, "theirs")
    theirs.chmod(0)
    done = keepstep(folder, "runs", preexec_fn=without_roots_rights)
    assert done.returncode == 3
    assert mine.name in done.stdout
    assert f"cannot read .keepstep/runs/{theirs.name}: Permission denied" in done.stderr
    theirs.chmod(0o700)
    root.chmod(0)
    for words in (("runs",), ("runs", "--json"), ("runs", "--prune"), ("why", "last")):
        done = keepstep(folder, *words, preexec_fn=without_roots_rights)
        assert done.returncode == 3
        assert "no runs" not in done.stdout
        assert "cannot read" in done.stderr and "Permission denied" in done.stderr
    root.chmod(0o700)


def test_a_run_that_cannot_be_removed_is_said(folder: Path) -> None:
    root = folder / ".keepstep" / "runs"
    old = made_run(root, "old")
    root.chmod(0o500)
    done = keepstep(folder, "runs", "--prune", "--keep", 0, preexec_fn=without_roots_rights)
    root.chmod(0o700)
    assert done.returncode == 3
    assert f"cannot remove .keepstep/runs/{old.name}: Permission denied" in done.stderr
    assert "removed 0 runs" in done.stdout


def test_a_dry_run_removes_nothing(folder: Path) -> None:
    old = made_run(folder / ".keepstep" / "runs", "old")
    done = keepstep(folder, "runs", "--prune", "--keep", 0, "--dry-run")
    assert (done.returncode, done.stdout) == (0, f"would remove 1 run\n  .keepstep/runs/{old.name}\n")
    assert old.is_dir()
    assert keepstep(folder, "runs", "--prune", "--keep", 0).stdout == done.stdout.replace("would remove", "removed")
    assert not old.exists()
    assert keepstep(folder, "runs", "--dry-run").returncode == 2
