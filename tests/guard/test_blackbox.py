# SPDX-License-Identifier: Apache-2.0
"""The black box: what is written is read, whatever becomes of the process or the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.guard.box_writer import Box, in_memory
from keepstep.signals import blackbox
from keepstep.signals.blackbox import HEADER_SIZE, RECORD, BoxPhase, RecordKind
from keepstep.signals.box_files import keep


@pytest.mark.parametrize("written", [0, 1, 2, 7, 99, 100, 101, 150, 200, 201, 1234])
def test_the_newest_records_are_kept_in_order(tmp_path: Path, written: int) -> None:
    box = Box(tmp_path / "a.box", {"rank": 3}, capacity=100)
    for number in range(written):
        box.write(RecordKind.STEP, number + 1, 10)
    read = blackbox.read(box.bytes())
    assert read.who == {"rank": 3} and read.damaged == 0
    assert [r.value for r in read.records] == list(range(max(1, written - 99), written + 1))
    assert list(blackbox.newest_first(box.bytes())) == list(reversed(read.records))


def test_a_killed_process_leaves_its_box(tmp_path: Path) -> None:
    path = tmp_path / "rank0.box"
    code = (
        "import sys, time; from pathlib import Path; from keepstep.guard.box_writer import Box\n"
        "box = Box(Path(sys.argv[1]), {'rank': 0})\n"
        "for n in range(1, 501): box.write(2, n, 1)\n"
        "print('written', flush=True); time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    did = blackbox.doing(tuple(reversed(blackbox.read(path.read_bytes()).records)))
    assert did is not None and did.steps == 500


def test_a_record_cut_short_is_passed_over(tmp_path: Path) -> None:
    box = Box(tmp_path / "a.box", {"rank": 0}, capacity=10)
    for number in range(5):
        box.write(RecordKind.STEP, number + 1)
    data = bytearray(box.bytes())
    place = HEADER_SIZE + 3 * RECORD.size
    data[place : place + 8] = (77).to_bytes(8, "little")
    read = blackbox.read(bytes(data))
    assert [r.value for r in read.records] == [1, 2, 4, 5] and read.damaged == 1
    assert blackbox.read(bytes(data[: HEADER_SIZE + 3 * RECORD.size])).records[-1].value == 2


@given(st.binary(max_size=9000), st.integers(0, 9000))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(junk: bytes, cut: int) -> None:
    whole = blackbox.HEAD.pack(blackbox.MAGIC, RECORD.size, 100, 0, 0) + junk
    for data in (junk, whole[:cut], whole):
        try:
            read = blackbox.read(data)
        except blackbox.NotABox:
            continue
        blackbox.doing(tuple(reversed(read.records)))


def test_what_a_rank_was_doing(tmp_path: Path) -> None:
    box = Box(tmp_path / "a.box", {})
    box.write(RecordKind.PHASE, BoxPhase.COMPUTE, 0)
    for step in range(1, 6):
        box.write(RecordKind.PLAN, 2, 1)
        box.write(RecordKind.PLAN, 2, 0)
        box.write(RecordKind.STEP, step, 5_000_000)
        box.write(RecordKind.PHASE, BoxPhase.INPUT, step)
        box.write(RecordKind.PHASE, BoxPhase.COMPUTE, step)
    box.write(RecordKind.PLAN, 3, 1)
    box.write(RecordKind.COLLECTIVE, 326)
    box.write(RecordKind.HELD, 5, 6)
    box.write(RecordKind.BEAT)
    did = blackbox.doing(blackbox.newest_first(box.bytes()))
    assert did is not None
    assert (did.phase, did.steps, did.usual_ns, did.plan, did.collective) == (BoxPhase.COMPUTE, 5, 5_000_000, 3, 326)
    assert did.beat is not None and did.last <= did.beat


def test_a_long_hang_does_not_push_its_own_story_out(tmp_path: Path) -> None:
    box = Box(tmp_path / "a.box", {})
    box.write(RecordKind.STEP, 7, 5_000_000)
    box.write(RecordKind.PHASE, BoxPhase.INPUT, 7)
    for _ in range(500):
        box.write(RecordKind.BEAT)
    did = blackbox.doing(blackbox.newest_first(box.bytes()))
    assert did is not None and (did.phase, did.steps) == (BoxPhase.INPUT, 7)


def test_a_full_disk_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Box(tmp_path / "a.box", {})
    assert not (tmp_path / "a.box").exists()


def test_a_copy_takes_the_place_of_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.signals.box_files.MEMORY", tmp_path)
    memory, link = in_memory("memory.box"), tmp_path / "rank0.box"
    assert memory is not None
    Box(memory, {"rank": 0}).write(RecordKind.STEP, 1)
    link.symlink_to(memory)
    keep(link)
    assert not link.is_symlink() and not memory.exists()
    assert blackbox.read(link.read_bytes()).records[0].value == 1
    keep(link)


def test_words_about_the_owner_stay_valid_while_they_change(tmp_path: Path) -> None:
    box = Box(tmp_path / "a.box", {"rank": None})
    box.tell({"rank": 1, "wall": time.time(), "script": "x" * 5000})
    assert blackbox.identity(box.bytes()) == {"rank": None}, "too long to be whole: the words before still hold"
    box.tell({"rank": 2})
    assert blackbox.identity(box.bytes()) == {"rank": 2}
