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
    assert (verdict.state, verdict.files, verdict.unrecorded) == (State.UNRECORDED, 1, 1)


class TestAFolderOfAllRanks:
    """As DeepSpeed's engine fills it: each rank saves its files by torch."""

    @staticmethod
    def save(tmp_path: Path, rank: int, *, fails: bool = False) -> Path:
        ledger = guard_of(rank, 2, tmp_path).ledger
        save = ledger.saves("torch", lambda: "torch 2", lambda data, path: path)(
            lambda data, path: path.write_bytes(data)
        )

        def fill(folder: Path) -> None:
            folder.mkdir(parents=True, exist_ok=True)
            if rank == 0:
                save(b"model", folder / "model_states.pt")
            if fails:
                raise KeyError("killed")
            save(b"optimizer", folder / f"rank_{rank}_optim_states.pt")

        folder = tmp_path / "out" / "global_step20"
        try:
            ledger.saves(
                "deepspeed", lambda: "deepspeed 0", lambda folder: folder, together=lambda folder: True, by_others=True
            )(fill)(folder)
        finally:
            ledger.close()
        return folder

    def test_each_rank_records_what_it_saved(self, tmp_path: Path) -> None:
        self.save(tmp_path, 1)
        folder = self.save(tmp_path, 0)
        verdict = verify(folder)
        assert (verdict.state, verdict.files, verdict.unrecorded) == (State.VERIFIED, 3, 0)
        assert verdict.writer == "deepspeed 0"

    def test_a_rank_that_never_saved_is_named(self, tmp_path: Path) -> None:
        folder = self.save(tmp_path, 0)
        assert verify(folder).why == "rank 1 of 2 did not finish its part of it"

    def test_a_save_that_no_rank_finished_is_incomplete(self, tmp_path: Path) -> None:
        with pytest.raises(KeyError):
            self.save(tmp_path, 0, fails=True)
        verdict = verify(tmp_path / "out" / "global_step20")
        assert (verdict.state, verdict.why) == (State.INCOMPLETE, "a save to it was begun and never finished")


def test_a_save_that_fails_does_not_end_with_a_record(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        saved_by_a_trainer(tmp_path, fails=True)
    assert verify(tmp_path / "out" / "checkpoint-20").unrecorded == 1
