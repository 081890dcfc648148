# SPDX-License-Identifier: Apache-2.0
"""The files of a running process's guard, found by what the process holds open."""

from __future__ import annotations

import os
from pathlib import Path

from keepstep.sources.files.left_files import FileKind
from keepstep.sources.recorded.open_boxes import left_by


def test_box_and_notes_of_a_process_are_found_by_its_open_files(tmp_path: Path) -> None:
    pid = os.getpid()
    box, ending = tmp_path / f"{pid}-17.box", tmp_path / f".rank3-{pid}-0.exit"
    notes = tmp_path / f"rank3-{pid}-0.notes.jsonl"
    notes.write_text("")
    with box.open("wb"), ending.open("wb"), (tmp_path / "1-1.box").open("wb"):
        found = {left.path: left.kind for left in left_by([pid])}
    assert found == {box: FileKind.BLACK_BOX, notes: FileKind.NOTES}


def test_a_process_without_a_guard_or_without_life_has_none(tmp_path: Path) -> None:
    with (tmp_path / f".rank3-{os.getpid()}-0.exit").open("wb"):  # its notes are gone
        assert left_by([os.getpid(), 2**22 - 1]) == []
