# SPDX-License-Identifier: Apache-2.0
"""Curves of a run for TensorBoard: one slow rank shows, and the same run gives the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.export import tensorboard
from keepstep.export.event_file import Scalar
from keepstep.export.tensorboard import write_curves
from keepstep.store.history.writer import HistoryWriter

AT = 1_794_990_000.0


def test_the_highest_of_all_ranks_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    (run / "attempt-0").mkdir(parents=True)
    writer = HistoryWriter(run / "attempt-0", "node 1")
    for second in range(1, 61):
        ranks = {rank: {"step_s": 3.0 if rank == 7 else 1.0} for rank in range(16)}
        writer.add(AT + second, ranks, {"node 1": {"host_cpu": 0.5}})
    writer.close()
    groups: list[list[Scalar]] = []

    def kept(began: float, scalars: list[Scalar]) -> list[bytes]:
        groups.append(scalars)
        return [repr(scalars).encode()]

    monkeypatch.setattr(tensorboard, "event_file", kept)
    written = write_curves(run, tmp_path / "logs")
    assert sorted(path.parent.name for path in written) == ["node-1", "ranks-highest", "ranks-lowest", "ranks-median"]
    last = {path.parent.name: group[-1] for path, group in zip(written, groups, strict=True)}
    assert {name: (each.tag, round(each.value, 2)) for name, each in last.items()} == {
        "node-1": ("host_cpu (share)", 0.5),
        "ranks-lowest": ("step_s (s)", 1.0),
        "ranks-median": ("step_s (s)", 1.0),
        "ranks-highest": ("step_s (s)", 3.0),
    }
    before = [path.read_bytes() for path in written]
    assert write_curves(run, tmp_path / "logs") == written
    assert [path.read_bytes() for path in written] == before


def test_a_run_without_history(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no history"):
        write_curves(tmp_path, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()
