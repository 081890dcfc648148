# SPDX-License-Identifier: Apache-2.0
"""A script that deletes what it has just saved: no record gets in its way, and none is left."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.guard.record import checkpoint_ledger, deleted_folders
from keepstep.store.ledger import manifest
from tests.guard.test_contracts import guard_of


@pytest.fixture(autouse=True)
def plain_rmtree() -> Iterator[None]:
    original = shutil.rmtree
    yield
    shutil.rmtree = original


def test_a_folder_is_not_deleted_while_a_record_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_folders, "LONGEST_S", 60.0)
    deleted_folders.watch()
    deleted_folders.watch()
    folder = tmp_path / "out"
    folder.mkdir()
    deletes = threading.Thread(target=shutil.rmtree, args=(folder,))
    with deleted_folders.still:
        deletes.start()
        deletes.join(0.3)
        assert deletes.is_alive() and folder.exists()
    deletes.join(10)
    assert not folder.exists()


def test_a_folder_can_be_deleted_while_the_disk_is_busy_with_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda path: path)(lambda path: path.write_bytes(b"weights"))
    at_it, deleted = threading.Event(), threading.Event()

    def slow(record: Path) -> None:
        at_it.set()
        assert deleted.wait(60)

    monkeypatch.setattr(manifest, "sync", slow)
    folder = tmp_path / "out"
    folder.mkdir()
    save(folder / "model.pt")
    assert at_it.wait(60)
    assert deleted_folders.still.acquire(blocking=False)
    deleted_folders.still.release()
    shutil.rmtree(folder)
    deleted.set()
    ledger.close()
    assert not folder.exists()


def test_a_folder_for_a_moment_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is held just before it writes, until the script has deleted everything."""
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda path: path)(lambda path: path.write_bytes(b"weights"))
    at_it, deleted = threading.Event(), threading.Event()
    made = manifest.Manifest

    def late(**fields: object) -> manifest.Manifest:
        at_it.set()
        assert deleted.wait(10)
        return made(**fields)  # type: ignore[arg-type]

    monkeypatch.setattr(manifest, "Manifest", late)
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        folder = Path(name)
        (folder / "ckpt").mkdir()
        save(folder / "ckpt" / "model.pt")
        assert at_it.wait(10)
    deleted.set()
    ledger.close()
    assert not folder.exists()


def test_the_first_files_of_a_data_set_are_not_recorded_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_ledger, "PAUSE_S", 30.0)
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda path: path)(lambda path: path.write_bytes(b"weights"))
    (tmp_path / "data").mkdir()
    (tmp_path / "ckpt").mkdir()
    save(tmp_path / "ckpt" / "model.pt")
    for number in range(checkpoint_ledger.MOST_SAVES + 5):
        save(tmp_path / "data" / f"{number}.pt")
    monkeypatch.setattr(checkpoint_ledger, "MOST_SAVES_S", 0.0)
    save(tmp_path / "data" / "later.pt")
    ledger.close()
    recorded = {each.name for each in (tmp_path / ".keepstep").rglob("*.json")}
    assert recorded == {"model.pt.json", "later.pt.json"}
