# SPDX-License-Identifier: Apache-2.0
"""The ranks of one run end up in one folder, however they were started, and those of another run never in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.guard.agree.run_folder import CommonFolder, claim, move, read_card
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.model.facts.guard import RankDoing

RANK = """
import os, sys, time
from pathlib import Path
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session

rank, exchange, job = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
session = Session(Identity(job=job), {"KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"})
session.open()
session.world_formed(2, rank, "torch")
session.use_exchange(SharedFolder(exchange))
for _ in range(3):
    session.step_done()
(exchange / f"here-{rank}").touch()
while len(list(exchange.glob("here-*"))) < 2:
    time.sleep(0.05)
"""


def run(exchange: Path, *cwds: Path, job: str = "alone") -> None:
    """Two ranks from two shells, each in its own folder."""
    exchange.mkdir()
    env = {**{name: value for name, value in os.environ.items() if name != "KEEPSTEP_DIR"}, "KEEPSTEP": "off"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(exchange), job], cwd=cwd, env=env)
        for rank, cwd in enumerate(cwds)
    ]
    assert [process.wait(60) for process in ranks] == [0, 0]


def folders(*cwds: Path) -> list[Path]:
    return sorted({path for cwd in cwds for path in (cwd / ".keepstep" / "guard").glob("*") if path.is_dir()})


def ranks_in(folder: Path) -> list[int | None]:
    return sorted(e.who for e in explain_paths([folder]).seen.all(RankDoing))  # type: ignore[type-var]


def test_ranks_that_start_in_two_folders_end_in_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    run(tmp_path / "x", one, two)
    (folder,) = folders(one, two)
    assert folder.parent.parent.parent == one, "where rank 0 writes"
    assert ranks_in(folder) == [0, 1]
    assert {path.name.split("-")[0] for path in folder.glob("*.box")} == {"rank0", "rank1"}
    assert explain_paths([folder]).report.verdict.value == "healthy"


def test_a_second_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    for number in range(2):
        run(tmp_path / f"x{number}", tmp_path, tmp_path)
    first, second = folders(tmp_path)
    assert ranks_in(first) == ranks_in(second) == [0, 1]
    assert not {path.name for path in first.glob("*.box")} & {path.name for path in second.glob("*.box")}


def test_a_second_run_into_a_given_folder_is_read_alone(tmp_path: Path) -> None:
    exchange = tmp_path / "x"
    for attempt, ranks in (("first", (0, 1)), ("second", (0,))):
        exchange = tmp_path / attempt
        exchange.mkdir()
        for rank in ranks:
            script = RANK.replace(
                '"KEEPSTEP_COMPANION": "off"',
                f'"KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": {str(tmp_path / "guard")!r}',
            )
            (exchange / "here-1").touch()
            (exchange / "here-0").touch()
            subprocess.run(
                [sys.executable, "-c", script, str(rank), str(exchange), "alone"],
                env={**os.environ, "KEEPSTEP": "off"},
                timeout=60,
                check=True,
            )
    explained = explain_paths([tmp_path / "guard"])
    assert [e.who for e in explained.seen.all(RankDoing)] == [0]
    assert explained.report.verdict.value == "unknown", "rank 1 of the second run left nothing"
    assert any("rank 1" in each.what for each in explained.report.coverage)


def test_unrelated_programs_of_one_folder_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keepstep.guard.agree.run_folder._launch", lambda: None)
    assert claim(Identity(job="alone"), {}) != claim(Identity(rank=0, world=2, job="cluster-a"), {})
    assert claim(Identity(rank=1, world=2, job="cluster-b"), {}) not in (
        claim(Identity(rank=1, world=2, job="cluster-a"), {}),
    )


def test_a_living_rank_of_the_same_cluster_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keepstep.guard.agree.run_folder._launch", lambda: None)
    first = claim(Identity(rank=0, world=2, job="cluster"), {})
    assert claim(Identity(rank=1, world=2, job="cluster"), {}) == first
    assert claim(Identity(rank=1, world=2, job="cluster"), {}) == first, "given twice: both are of this job"
    for box in first.glob(".rank1-*.box"):
        os.utime(box, (time.time() - 300, time.time() - 300))
    assert claim(Identity(rank=1, world=2, job="cluster"), {}) != first, "an earlier run that has not ended yet"


def test_a_host_that_does_not_see_the_folder_of_rank_0_takes_its_name(tmp_path: Path) -> None:
    own = tmp_path / "b" / "train-1"
    own.mkdir(parents=True)
    exchange = SharedFolder(tmp_path / "x")
    far = tmp_path / "a" / "train-0"
    far.mkdir(parents=True)
    CommonFolder(exchange, Identity(rank=0, world=2), far, moves=True).tell()
    (far / ".job").unlink()  # as if the path were on another host
    meeting = CommonFolder(exchange, Identity(rank=1, world=2), own, moves=True)
    assert meeting.where() == tmp_path / "b" / "train-0"
    assert (read_card(tmp_path / "b" / "train-0") or {})["run"] == meeting.run


def test_a_file_that_is_not_there_is_not_moved(tmp_path: Path) -> None:
    move(tmp_path / "a.notes.jsonl", tmp_path / "b.notes.jsonl")
    assert not list(tmp_path.iterdir())
