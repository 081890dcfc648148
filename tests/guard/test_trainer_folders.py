# SPDX-License-Identifier: Apache-2.0
"""A trainer that fills a folder: what it writes by itself is recorded when the save ends, by its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import Verdict, verify
from tests.guard.test_contracts import guard_of


def saved_by_a_trainer(tmp_path: Path, *, writes: bool = True, fails: bool = False) -> Verdict:
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda data, path: path)(lambda data, path: path.write_bytes(data))

    def fill(folder: Path) -> None:
        folder.mkdir(parents=True)
        save(b"weights", folder / "model.bin")
        (folder / "trainer_state.json").write_text("{}")
        if fails:
            raise KeyError("the trainer's own")

    folder = tmp_path / "out" / "checkpoint-20"
    try:
        ledger.fills(lambda: "trainer 1", lambda result, folder: folder if writes else None)(fill)(folder)
    finally:
        ledger.close()
    return verify(folder)


def test_all_files_of_it_are_recorded(tmp_path: Path) -> None:
    verdict = saved_by_a_trainer(tmp_path)
    assert (verdict.state, verdict.files, verdict.unrecorded) == (State.VERIFIED, 2, 0)
    assert verdict.writer == "trainer 1"


def test_a_process_that_did_not_write_them_records_none(tmp_path: Path) -> None:
    verdict = saved_by_a_trainer(tmp_path, writes=False)
    assert (verdict.state, verdict.files, verdict.unrecorded) == (State.VERIFIED, 1, 1)


def test_a_save_that_fails_does_not_end_with_a_record(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        saved_by_a_trainer(tmp_path, fails=True)
    assert verify(tmp_path / "out" / "checkpoint-20").unrecorded == 1
