# SPDX-License-Identifier: Apache-2.0
"""A save that is killed at whichever point, or fills the disk: what is not whole is never called good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import latest_good, verify
from tests.guard.test_contracts import guard_of

PROGRAM = Path(__file__).with_name("killed_saves.py")


@pytest.mark.parametrize("way", ["in place", "renamed"])
def test_killed_before_every_call_that_changes_the_disk(way: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, PROGRAM, way], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    after = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(after) > 10
    for turn, each in enumerate(after, 1):
        assert each["whole"] or not State[each["state"]].is_good, f"killed before call {turn}: {each}"
    assert after[-1] == {"whole": True, "new": True, "state": "VERIFIED"}
    torn = [each for each in after if not each["whole"]]
    assert (way == "renamed") == (not torn), "only a save in place leaves half of a file"
    assert all(State[each["state"]].is_bad for each in torn)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_disk_that_is_full_in_the_middle_of_a_save(tmp_path: Path, small: Path) -> None:
    folder = small / "ckpt"
    folder.mkdir()
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda data, path: path)(lambda data, path: path.write_bytes(data))
    save(b"x" * 50_000, folder / "step_1.bin")
    with pytest.raises(OSError, match="No space"):
        save(b"y" * 400_000, folder / "step_2.bin")
    ledger.close()
    assert verify(folder / "step_2.bin").state is State.INCOMPLETE
    assert latest_good(folder) == folder / "step_1.bin"
