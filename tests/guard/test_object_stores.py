# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in object stores, or without a record: what is not verified is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard.test_contracts import guard_of


@pytest.mark.parametrize("before_the_first_step", [False, True])
def test_a_checkpoint_that_cannot_be_verified_is_said_so(tmp_path: Path, before_the_first_step: bool) -> None:
    session = guard_of(0, 1, tmp_path, KEEPSTEP_COMPANION="off")
    if not before_the_first_step:
        session.open()
    save = session.ledger.saves("torch", lambda: "torch 2", lambda path: path)(lambda path: "saved")
    load = session.ledger.loads(lambda path: path)(lambda path: "loaded")
    assert save("gs://bucket/step_1.pt") == "saved"
    assert load("s3://bucket/step_1.pt") == "loaded"
    assert load(str(tmp_path / "none.pt")) == "loaded"
    (tmp_path / "old.pt").write_bytes(b"weights")
    for _ in range(2):
        assert load(str(tmp_path / "old.pt")) == "loaded"
    session.open()
    session.flush()
    assert session.notes_path is not None
    notes = session.notes_path.read_text()
    session.close()
    for store in ("gs", "s3"):
        assert f"what is saved in {store}:// is not watched: only files can be verified, not object stores" in notes
    assert "none.pt" not in notes
    assert notes.count('"the content of a loaded checkpoint is not watched: old.pt has files without a record') == 1
