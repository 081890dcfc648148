# SPDX-License-Identifier: Apache-2.0
"""A program that ends right after a save: the record of it is written, or the checkpoint is not called bad."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import latest_good, verify
from tests.guard.test_contracts import guard_of

PROGRAM = """
import os, signal, sys
import torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
optimizer.step()
torch.save({{"weights": torch.ones(500_000)}}, "ckpt/step_1.pt")
{end}
"""


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("sys.exit(3)", State.VERIFIED),
        pytest.param("os._exit(3)", State.VERIFIED, marks=pytest.mark.long),
        ("os.kill(os.getpid(), signal.SIGTERM)", State.UNRECORDED),
    ],
)
def test_a_program_that_ends_right_after_a_save(end: str, state: State, tmp_path: Path) -> None:
    tmp_path.joinpath("ckpt").mkdir()
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], cwd=tmp_path, env=env, capture_output=True, timeout=300
    )
    assert done.returncode in (3, -15), done.stderr
    saved = tmp_path / "ckpt" / "step_1.pt"
    assert verify(saved).state in (state, State.VERIFIED)
    assert latest_good(tmp_path / "ckpt") == saved


def test_a_rank_that_is_gone_before_the_record_of_its_part_has_finished_it(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "step_5"
    folder.mkdir(parents=True)
    for rank in (1, 0):
        child = os.fork()
        if child == 0:
            ledger = guard_of(rank, 2, tmp_path).ledger

            def save(path: Path, rank: int = rank) -> None:
                path.joinpath(f"__{rank}_0.distcp").write_bytes(b"x" * 1000)

            ledger.saves(
                "dcp", lambda: "torch 2", lambda path: path, together=lambda path: True,
                mine=lambda name, rank=rank: name.startswith(f"__{rank}_"),
            )(save)(folder)  # fmt: skip
            if rank:
                ledger.close()
            os._exit(0)  # of the test's process, whose guard listens to nothing
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    verdict = verify(folder)
    assert verdict.state is (State.UNRECORDED if verdict.unrecorded else State.VERIFIED)
    assert verdict.files + verdict.unrecorded == 2
