# SPDX-License-Identifier: Apache-2.0
"""A folder of checkpoints that is a link to a larger disk: what is saved through the link has its record."""

from __future__ import annotations

from pathlib import Path

from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import verify
from tests.guard.test_contracts import guard_of


def test_what_is_saved_through_a_link_is_verified_through_it_and_without_it(tmp_path: Path) -> None:
    scratch, job = tmp_path / "scratch" / "ckpt", tmp_path / "job"
    scratch.mkdir(parents=True)
    job.mkdir()
    (job / "ckpt").symlink_to(scratch)
    ledger = guard_of(0, 1, tmp_path).ledger
    save = ledger.saves("torch", lambda: "torch 2", lambda data, path: path)(lambda data, path: path.write_bytes(data))
    save(b"x" * 5_000, job / "ckpt" / "step_1.bin")
    ledger.close()
    for path in (job / "ckpt" / "step_1.bin", scratch / "step_1.bin"):
        assert verify(path).state is State.VERIFIED, path
    assert not list(job.rglob(".keepstep*")), "the records lie beside the files"
    assert not list(tmp_path.rglob("*.begun"))
