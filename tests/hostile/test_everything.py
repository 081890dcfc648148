# SPDX-License-Identifier: Apache-2.0
"""Every verb, in and on one folder with everything in it: none of its code runs, nothing outside is read or changed,
and nothing stalls or crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.hostile.everything import SECRET, everything

LIMIT_S = 180
ALLOWED = {"0": 0, "problems": 1, "usage": 2, "could not look": 3}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return everything(tmp_path / "folder", tmp_path / "outside")


def keepstep(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In the folder itself, as a user would who has just unpacked it."""
    outside = place.parent / "outside"
    before = (outside / "secret.log").read_bytes()
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", *arguments],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )
    said = done.stdout + done.stderr
    assert done.returncode in ALLOWED.values(), said
    assert "Traceback (most recent call last)" not in done.stderr, said
    assert not (outside / "ran").exists(), "code of the folder ran"
    assert (outside / "secret.log").read_bytes() == before, "a file outside was changed"
    assert SECRET not in said, "a file outside was read"
    return done


def test_why(place: Path, tmp_path: Path) -> None:
    bundle, page = tmp_path / "all.tar.gz", tmp_path / "page.html"
    done = keepstep(place, "why", "--no-kernel-log", "--html", str(page), "--bundle", str(bundle), ".")
    assert done.returncode == 1
    told = " ".join(done.stdout.split())
    assert "links out of the folder" in told and "pipes, sockets and devices" in told
    assert "Python file" in told and "keepstep rules trust" in told
    assert SECRET not in page.read_text()
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            stream = archive.extractfile(member)
            assert stream is not None and SECRET.encode() not in stream.read()


@pytest.mark.parametrize(
    "given", ["last", ".keepstep/runs/20260101T000000Z-train", ".keepstep/guard/old-run", "links", "pipes"]
)
def test_why_of_its_parts(place: Path, given: str) -> None:
    keepstep(place, "why", "--no-kernel-log", given)


def test_runs_and_rules(place: Path) -> None:
    keepstep(place, "runs")
    keepstep(place, "runs", "--prune", "--keep", "0", "--keep-days", "0")
    keepstep(place, "rules", "list")


def test_check(place: Path) -> None:
    keepstep(place, "check", "config", "env")


def test_run(place: Path) -> None:
    """What the ranks import from their folder is the user's decision: here they are a program without Python."""
    done = keepstep(
        place,
        "run",
        "--no-check",
        "-q",
        "-n",
        "2",
        "--max-attempts",
        "1",
        "--",
        "bash",
        "-c",
        "echo step 1; exit $RANK",
    )
    assert done.returncode == 1
    assert "rank 1" in done.stderr
