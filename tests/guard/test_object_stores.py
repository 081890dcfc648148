# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in object stores: what is not verified is said."""

from __future__ import annotations

from pathlib import Path

from tests.guard.test_contracts import guard_of


def test_a_checkpoint_in_an_object_store_is_said_not_to_be_verified(tmp_path: Path) -> None:
    session = guard_of(0, 1, tmp_path, KEEPSTEP_COMPANION="off")
    session.open()
    save = session.ledger.saves("torch", lambda: "torch 2", lambda path: path)(lambda path: "saved")
    load = session.ledger.loads(lambda path: path)(lambda path: "loaded")
    assert save("gs://bucket/step_1.pt") == "saved"
    assert load("s3://bucket/step_1.pt") == "loaded"
    session.flush()
    assert session.notes_path is not None
    notes = session.notes_path.read_text()
    session.close()
    for store in ("gs", "s3"):
        assert f"what is saved in {store}:// is not watched: only files can be verified, not object stores" in notes
