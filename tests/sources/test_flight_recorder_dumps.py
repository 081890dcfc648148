# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pickle
from pathlib import Path

from keepstep.model.evidence import CoverageState
from keepstep.model.facts.sync import DumpUnreadable
from keepstep.sources.files.flight_recorder_dumps import read_flight_recorder

DATA = Path(__file__).parents[1] / "data" / "flight_recorder" / "behind" / "comm_lib_trace_rank_1"


def test_a_dump_is_read_with_the_rank_of_its_name() -> None:
    evidence, (coverage,) = read_flight_recorder(DATA, DATA.name, None)
    assert {e.rank.index for e in evidence if e.rank} == {1}
    assert coverage.state is CoverageState.CHECKED
    assert "all_reduce" in evidence[0].quote and "train.py" in evidence[0].quote


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran-by-keepstep",)


def test_a_hostile_dump_gives_a_line_of_coverage(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": [Evil()]}))
    (lost,), (coverage,) = read_flight_recorder(path, path.name, None)
    assert isinstance(lost.fact, DumpUnreadable) and lost.who == 0
    assert coverage.state is CoverageState.UNAVAILABLE and "was not run" in coverage.why
    assert not (tmp_path / "ran-by-keepstep").exists()


def test_a_missing_dump_gives_a_line_of_coverage(tmp_path: Path) -> None:
    evidence, (coverage,) = read_flight_recorder(tmp_path / "gone", "gone", None)
    assert evidence == [] and coverage.state is CoverageState.UNAVAILABLE
