# SPDX-License-Identifier: Apache-2.0
"""An attempt on several hosts is one attempt: the same report as on one host, with the host of each rank.

``attempts`` holds real attempts of two ranks on one host, one per framework and fault. Each is split over two hosts
on which both ranks have the same process number.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from keepstep.model.cause import Cause
from keepstep.model.identity import HostPid
from keepstep.model.report import Report, Verdict
from keepstep.render.json import render_json
from keepstep.render.terminal import render_terminal
from keepstep.sources.recorded import node_folders
from keepstep.supervise.nodes.evidence.parcels import Receiver, Sender, write_node
from keepstep.supervise.show.diagnosis import explain
from tests.supervise.nodes.splitting import HOSTS, SAME, split

RECORDED = sorted(path.name.removesuffix(".tar.xz") for path in (Path(__file__).parent / "attempts").iterdir())
CAUSES = {
    "killed": {Cause.UNKNOWN_NOT_ESTABLISHED},
    "asleep": {Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK},
    "mismatch": {Cause.SYNC_COLLECTIVE_MISMATCH},
    "nan": {Cause.NUMERIC_NAN_OR_DIVERGENCE},
}


def unpacked(name: str, into: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "attempts" / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into


def told(report: Report) -> tuple[Any, ...]:
    """All that a report says, without process numbers."""
    findings = [
        (f.rule, f.cause, f.role, f.confidence, f.severity, f.ranks, _numberless(f.title), _numberless(f.because))
        for f in report.findings
    ]
    return report.verdict, findings, report.ranks, report.world_size, report.alive


def _numberless(text: str) -> str:
    return re.sub(r"\d{3,}", "N", text)


@pytest.mark.parametrize("name", RECORDED)
def test_a_split_attempt_is_explained_as_the_whole_and_names_hosts(name: str, tmp_path: Path) -> None:
    whole, _ = explain(unpacked(name, tmp_path / "whole"))
    ahead_s = 300.0 if name.startswith("torch") else 0.0  # the others print the time, which split() does not change
    split(tmp_path / "whole", tmp_path / "split", ahead_s=ahead_s)
    report, progress = explain(tmp_path / "split")
    assert told(report) == told(whole)
    assert report.hosts == tuple(enumerate(HOSTS)) and whole.hosts == ()
    assert progress.steps
    fault = name.partition("-")[2]
    if fault == "healthy":
        assert report.verdict is Verdict.HEALTHY
    elif name == "jax-terminated":  # rank 1 slept, and it was ended from outside
        assert report.verdict is Verdict.HUNG and report.root is not None and report.root.ranks == (1,)
    elif fault == "terminated":  # it hung, which its stacks do not show, and was ended from outside
        assert report.verdict is Verdict.UNKNOWN
    else:
        assert report.root is not None and report.root.cause in CAUSES[fault] and 1 in report.root.ranks
        assert "rank 1 (host-b)" in render_terminal(report)
    assert json.loads(render_json(report))["hosts"] == {"0": "host-a", "1": "host-b"}


@pytest.mark.parametrize("name", RECORDED)
def test_what_travelled_to_the_leader_gives_the_same_report(name: str, tmp_path: Path) -> None:
    split(unpacked(name, tmp_path / "whole"), tmp_path / "split")
    there, _ = explain(tmp_path / "split")
    (tmp_path / "leader").mkdir()
    for rank, node in enumerate(("node0", "node1")):
        write_node(tmp_path / "leader" / node, host=HOSTS[rank], address=None, ranks=[rank])
        receiver, sender = Receiver(tmp_path / "leader" / node), Sender(tmp_path / "split" / node, 0)
        for ended in (False, True):  # once while it runs with little time, once at its end
            for parcel in sender.parcels(most_bytes=200_000 if not ended else 64 << 20, ended=ended):
                receiver.take(parcel)
    report, _ = explain(tmp_path / "leader")
    assert told(report) == told(there) and report.hosts == there.hosts


def test_equal_process_numbers_of_two_hosts_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that this matters: without it, rank 0's end is taken for that of rank 1, or the other way round."""
    one, other = HostPid(SAME, "host-a"), HostPid(SAME, "host-b")
    assert one != other and one == HostPid(SAME, "host-a") and len({one, other, SAME}) == 3
    assert one not in [SAME] and SAME not in [one] and f"{one}" == json.dumps(other) == str(SAME)
    split(unpacked("torch-asleep", tmp_path / "whole"), tmp_path / "split")
    kept_apart = told(explain(tmp_path / "split")[0])
    monkeypatch.setattr(node_folders, "HostPid", lambda number, host: number)
    assert told(explain(tmp_path / "split")[0]) != kept_apart


def test_a_host_that_was_lost_is_not_healthy(tmp_path: Path) -> None:
    split(unpacked("torch-healthy", tmp_path / "whole"), tmp_path / "split")
    assert explain(tmp_path / "split")[0].verdict is Verdict.HEALTHY
    (tmp_path / "split" / "node1" / "exits.jsonl").unlink()
    assert explain(tmp_path / "split")[0].verdict is Verdict.UNKNOWN
    for path in sorted((tmp_path / "split" / "node1").rglob("*"), reverse=True):
        if path.name not in ("node.json", "guard", "rank1.log"):
            path.unlink()
    assert explain(tmp_path / "split")[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("age_s", "alive"), [(0.0, (1,)), (60.0, ())])
def test_a_remote_process_lives_if_its_host_said_so_just_now(tmp_path: Path, age_s: float, alive: tuple[int]) -> None:
    """Later nothing is known about it: it is not called dead either."""
    split(unpacked("torch-asleep", tmp_path / "whole"), tmp_path / "split")
    for each in ("exits.jsonl", "arrivals.json"):
        (tmp_path / "split" / "node1" / each).unlink()
    living = tmp_path / "split" / "node1" / "living.json"
    living.write_text(json.dumps({"schema": "keepstep.living/1", "pids": [SAME], "now_ns": time.monotonic_ns()}))
    os.utime(living, (time.time() - age_s,) * 2)
    report, _ = explain(tmp_path / "split")
    assert report.alive == alive
    assert not any(f.rule == "UNK003" for f in report.findings)


def test_hosts_with_one_name_are_told_apart(tmp_path: Path) -> None:
    split(unpacked("torch-killed", tmp_path / "whole"), tmp_path / "split")
    for number in (0, 1):
        said = json.loads((tmp_path / "split" / f"node{number}" / "node.json").read_text())
        (tmp_path / "split" / f"node{number}" / "node.json").write_text(json.dumps({**said, "host": "localhost"}))
    assert explain(tmp_path / "split")[0].hosts == ((0, "localhost (node 0)"), (1, "localhost (node 1)"))


@pytest.mark.parametrize(
    "said",
    ["", "[]", '{"host": 3}', '{"host": "a", "ranks": [-1, 1e9, "x"], "ahead_s": "late"}', '{"host": "\x1b[31m"}'],
)
def test_a_strange_description_of_a_host_does_no_harm(tmp_path: Path, said: str) -> None:
    split(unpacked("torch-killed", tmp_path / "whole"), tmp_path / "split")
    (tmp_path / "split" / "node1" / "node.json").write_text(said)
    report, _ = explain(tmp_path / "split")
    assert report.verdict is Verdict.FAILED and "\x1b" not in render_terminal(report)
