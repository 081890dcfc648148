# SPDX-License-Identifier: Apache-2.0
"""A log may not take for ever, and nobody takes what was left out for read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.scan_logs import scan_logs
from keepstep.model.evidence import Coverage, CoverageState, EvidenceSet
from keepstep.model.facts.network import PortTaken
from keepstep.model.report import Verdict
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.lines.long_lines import NEAR
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.patience import PER_LINE_S, LogPatience
from keepstep.parse.scan.signature import signature
from keepstep.sources.files.file_search import find_files
from keepstep.story.engine import diagnose

KNOWLEDGE = build(
    [signature(r"taken: port (?P<port>\d+)$", PortTaken), signature(r"^busy port (?P<port>\d+)", PortTaken)], ()
)


class Clock:
    """Goes on by so many seconds each time that it is asked."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def ports(data: bytes, patience: LogPatience | None = None) -> tuple[list[int], LogScan]:
    scan = LogScan(KNOWLEDGE, patience=patience)
    return [s.fact.port for s in scan.scan([data]) if isinstance(s.fact, PortTaken)], scan


def test_a_log_is_given_up_when_it_takes_too_long() -> None:
    data = b"".join(b"taken: port %d\n" % n for n in range(1000, 1030))
    found, scan = ports(data, LogPatience(per_file_s=0.2, clock=Clock(0.004)))
    assert scan.patience.gave_up_after_s is not None and scan.patience.gave_up_after_s > 0.2
    assert 0 < len(found) < 30


def test_a_larger_log_has_more_time() -> None:
    clock = Clock(0.0)
    patience = LogPatience(per_file_s=10.0, clock=clock)
    clock.now = 12.0
    assert not patience.is_out(5_000_000)
    assert patience.is_out(1_000_000)


def test_a_line_is_left_when_it_takes_too_long_and_the_next_is_read() -> None:
    hostile = b"x" * 2000 + b" taken: port " * 300
    found, scan = ports(hostile + b"\ntaken: port 7\n", LogPatience(clock=Clock(PER_LINE_S / 4)))
    assert set(found) == {7}
    assert scan.patience.cut_lines == {0}
    assert scan.patience.gave_up_after_s is None


def test_a_long_line_is_read_around_a_hit() -> None:
    far = b"y" * 3 * NEAR
    assert ports(far + b" taken: port 11\n")[0] == [11]
    assert ports(b"busy port 12 " + far + b"\n")[0] == [12]


@pytest.mark.parametrize("line", [b"z" * 3 * NEAR + b"busy port 5", b"taken: port 5" + b"z" * 3 * NEAR])
def test_the_edge_of_what_is_read_is_no_beginning_and_no_end_of_a_line(line: bytes) -> None:
    assert ports(line + b"\n")[0] == []


def test_what_was_left_out_is_said_and_never_healthy(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(b"step 1 loss 0.5\n" * 40 + b"Error: \n" * 40)
    files = find_files([tmp_path]).files
    _, coverage = scan_logs(files, patience_s=-1.0)
    (said,) = [each for each in coverage if each.state is CoverageState.PARTLY]
    assert said.what == "rank0.log" and "stopped after" in said.why
    looked = Coverage(what="1 log", state=CoverageState.CHECKED)
    assert diagnose(EvidenceSet(items=(), coverage=(looked,)), []).verdict is Verdict.HEALTHY
    assert diagnose(EvidenceSet(items=(), coverage=(looked, said)), []).verdict is Verdict.UNKNOWN


def test_why_says_it_and_does_not_call_the_run_healthy(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(b"step 1 loss 0.5\nstep 2 loss 0.4\nTraining finished\n")
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "why",
        "--json",
        "--no-kernel-log",
        "--seconds-per-file",
        "-1",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (3, "unknown")
    assert [each["state"] for each in report["coverage"] if "stopped after" in each["why"]] == ["partly checked"]
