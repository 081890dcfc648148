# SPDX-License-Identifier: Apache-2.0
"""Ranks that load one checkpoint together, each with its share of the files: they load it all, or none does."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from keepstep.errors import OutOfStep
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.record import refused_loads
from keepstep.guard.session import Session
from tests.guard.test_contracts import guard_of
from tests.store.test_ledger import flip, record

WORLD = 3


@pytest.fixture
def guards(tmp_path: Path) -> list[Session]:
    made = [guard_of(rank, WORLD, tmp_path, KEEPSTEP="strict") for rank in range(WORLD)]
    for guard in made:
        guard.use_exchange(SharedFolder(tmp_path / "exchange"))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ckpt" / "step_8"
    made.mkdir(parents=True)
    for rank in range(WORLD):
        (made / f"__{rank}_0.distcp").write_bytes(os.urandom(1000))
        record(made, rank=rank, world=WORLD, names=(f"__{rank}_0.distcp",))
    return made


def all_load(guards: list[Session], folder: Path) -> list[str]:
    """Each rank in its own thread: what became of its load."""
    told = [""] * len(guards)

    def load(number: int) -> None:
        looks = guards[number].ledger.loads(lambda path: path, together=lambda path: True)
        try:
            told[number] = looks(lambda path: "loaded")(folder)
        except OutOfStep as error:
            told[number] = str(error)

    threads = [threading.Thread(target=load, args=(n,)) for n in range(len(guards))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_a_whole_one_is_loaded_by_all_and_a_damaged_one_by_none(guards: list[Session], folder: Path) -> None:
    assert all_load(guards, folder) == ["loaded"] * WORLD
    flip(folder / "__1_0.distcp", 9)
    told = all_load(guards, folder)
    assert told[1].startswith(f"the checkpoint {folder} is damaged")
    assert told[0].startswith("rank 1 found that the checkpoint ")
    assert told[2].startswith("rank 1 found that the checkpoint ")


def test_a_rank_that_does_not_come_is_not_waited_for_without_end(
    guards: list[Session], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_loads, "LEAST_S", 0.2)
    monkeypatch.setattr("keepstep.guard.agree.contract.PATIENCE_S", 0.2)
    assert all_load(guards[:2], folder) == ["loaded"] * 2
