# SPDX-License-Identifier: Apache-2.0
"""Mounts that do not answer: a real one, which stops answering, and the rules by which one is given up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.check.data.find.mounts import SilentMount, mount_of, mounts
from tests.check.data import silent_mount

WAIT_S = 6
_ALONE = ["unshare", "--user", "--map-root-user", "--mount"]


def _can_mount() -> bool:
    if shutil.which("unshare") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return False
    tried = [*_ALONE, sys.executable, silent_mount.__file__, os.path.dirname(__file__), "none", "true"]
    return subprocess.run(tried, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize(
    "silent",
    ["c.jsonl", pytest.param("b.jsonl,c.jsonl,d.jsonl,e.jsonl", marks=pytest.mark.long), "readdir", "everything"],
)
def test_a_dead_mount_costs_a_bounded_time_and_other_files_are_read(tmp_path: Path, silent: str) -> None:
    if not _can_mount():
        pytest.skip("no file system can be mounted here")
    for name in ("a_before", "m_dead", "z_after"):
        (tmp_path / name).mkdir()
    for name in ("a_before", "z_after"):
        (tmp_path / name / "x.jsonl").write_bytes(b'{"a": 1}\n')
    check = [sys.executable, "-m", "keepstep", "check", "data", str(tmp_path), "--json", "--no-manifest", "--jobs", "1"]
    command = [*_ALONE, sys.executable, silent_mount.__file__, str(tmp_path / "m_dead"), silent, *check]
    began = time.monotonic()
    done = subprocess.run([*command, "--wait", str(WAIT_S)], capture_output=True, text=True, timeout=300)
    assert time.monotonic() - began < 200
    report = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    (finding,) = [each for each in report["findings"] if each["rule"] == "DAT307"]
    assert f"no answer for {WAIT_S}.0 s" in finding["title"]
    assert "ls -l" not in str(finding["fixes"]), "it would hang as well"
    dead = str(tmp_path / "m_dead")
    named = {each["source"] for each in finding["evidence"]}
    files = [] if silent in ("readdir", "everything") else [f"{dead}/{name}" for name in silent.split(",")[:3]]
    assert named == set(files or [dead])
    looked = " ".join(each["what"] for each in report["coverage"] if each["state"] == "checked")
    not_tried = " ".join(f"{each['what']} {each['why']}" for each in report["coverage"])
    if silent == "c.jsonl":
        assert "9 JSON lines files" in looked
    elif files:
        assert f"3 files in a row did not answer on {dead}" in not_tried
        assert "3 JSON lines files" in looked, "those on other file systems, and the one before"
    else:
        assert "2 JSON lines files" in looked


def test_the_mount_of_a_path_is_told_by_its_name() -> None:
    known = ["/data/set one", "/data", "/"]
    assert mount_of("/data/set one/a", known) == "/data/set one"
    assert mount_of("/data/set once", known) == "/data"
    assert mount_of("/database/a", known) == "/"
    assert mount_of("s3://bucket/a/b", known) == "s3://bucket"
    assert mount_of("/folder/a", []) == "/folder"
    assert "/" in mounts() or not os.path.exists("/proc/self/mountinfo")


def test_a_mount_is_given_up_only_after_several_files_in_a_row() -> None:
    silent = SilentMount()
    for _ in range(2):
        silent.gave_none("s3://bucket/a")
    silent.answered("s3://bucket/b")
    for _ in range(2):
        silent.gave_none("s3://bucket/a")
        assert not silent.why_not("s3://bucket/c")
    silent.gave_none("s3://bucket/a")
    assert "s3://bucket" in silent.why_not("s3://bucket/c")
    assert not silent.why_not("s3://other/c")
