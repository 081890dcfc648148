# SPDX-License-Identifier: Apache-2.0
"""`keepstep profile`: the frameworks' own profilers, started from outside in jobs that know nothing about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.base.proc_stat import read_stat
from keepstep.errors import UserError
from keepstep.parse.formats.profile_trace import IDLE, Span, time_by_operation, torch_spans
from keepstep.signals.blackbox import doing, newest_first
from keepstep.signals.box_files import open_box
from keepstep.store.profile_request import Answer
from keepstep.supervise.profile_run import Profiled, RankProfile, newest_profile, odd_one, profile_run
from tests.guard import torch_ranks
from tests.guard.torch_ranks import Ranks

SCRIPT = Path(__file__).with_name("profiled_training.py")
LIMIT_S = 100.0


def profiled(run: Ranks, ranks: int) -> Profiled:
    def steps(box: Path) -> int:
        with open_box(box) as stream:
            state = doing(newest_first(stream.read()))
        return state.steps if state is not None else 0

    run.wait_for(lambda: sum(steps(box) > 5 for box in run.guard.glob("*.box")) >= ranks)
    return profile_run(run.guard, None, 3, LIMIT_S)


@pytest.mark.slow
@pytest.mark.frameworks("torch")
def test_the_rank_that_sleeps_is_named(tmp_path: Path) -> None:
    with torch_ranks.ranks(tmp_path, "torch", script=SCRIPT, KEEPSTEP_PROFILE="stragglers") as run:
        found = profiled(run, 2)
        run.wait_for(lambda: len(list(run.guard.glob("profile-*/rank*.json"))) >= 4)  # that of the straggler too
        (tmp_path / "enough").touch()
        assert run.ended() == [0, 0], run.logs()
    assert not found.silent
    first, second = found.ranks
    assert (first.answer.first, first.answer.last) == (second.answer.first, second.answer.last)
    assert first.answer.last - first.answer.first == 3
    odd = odd_one(found.ranks)
    assert odd is not None and (odd.rank, odd.name) == (1, IDLE) and odd.more_s > 0.05
    assert any("linear" in name or "mm" in name for name in first.per_step)
    assert newest_profile(run.guard).folder != found.folder
    command = [sys.executable, "-m", "keepstep", "profile", str(run.guard), "--last"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "slowest part: rank 1 spends" in said
    assert max(len(line) for line in said.splitlines() if "logdir" not in line) <= 80
    assert read_stat(run.processes[0].pid) is None
    with pytest.raises(UserError, match="no rank of"):
        profile_run(run.guard, None, 3, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "operation"),
    [
        pytest.param("jax", "fusion", marks=[pytest.mark.frameworks("jax"), pytest.mark.long]),
        pytest.param("tensorflow", "MatMul", marks=[pytest.mark.frameworks("tensorflow"), pytest.mark.long]),
    ],
)
def test_operations_of_jax_and_tensorflow(tmp_path: Path, framework: str, operation: str) -> None:
    with torch_ranks.ranks(tmp_path, framework, count=1, script=SCRIPT) as run:
        found = profiled(run, 1)
        (tmp_path / "enough").touch()
        assert run.ended() == [0], run.logs()
    (only,) = found.ranks
    assert only.answer.failed is None
    assert any(operation in name for name in only.per_step), only.per_step


def test_an_operation_counts_without_what_it_calls() -> None:
    spans = [Span("a", "outer", 0.0, 10.0), Span("a", "inner", 2.0, 5.0), Span("b", "other", 9.0, 12.0)]
    assert time_by_operation(spans, 20.0) == {"outer": 7.0, "inner": 3.0, "other": 3.0, IDLE: 8.0}


def test_where_the_device_computes_the_host_only_waits() -> None:
    kernel, waits = Span("device 7", "gemm", 0.0, 6.0), Span("host 1", "aten::item", 0.0, 10.0)
    assert time_by_operation([kernel, waits], 10.0) == {"gemm": 6.0, IDLE: 4.0}
    assert time_by_operation([kernel._replace(end=4.0), waits], 10.0) == {"gemm": 4.0, "aten::item": 10.0, IDLE: 0.0}


def test_a_damaged_trace_gives_what_it_has() -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": "mm", "ts": 1e6, "dur": 5e5, "tid": 1}, {"ph": "X"}, None, 7]
    assert list(torch_spans(json.loads(json.dumps({"traceEvents": events})))) == [Span("host 1", "mm", 1.0, 1.5)]


def test_waiting_in_a_collective_is_no_slow_part() -> None:
    def rank(number: int, **per_step: float) -> RankProfile:
        return RankProfile(Answer(number, 0, 1, 1.0), (), per_step)

    assert odd_one((rank(0, gloo_all_reduce=0.9, mm=0.1), rank(1, mm=0.1))) is None
    odd = odd_one((rank(0, mm=0.1), rank(1, mm=0.4), rank(2, mm=0.1)))
    assert odd is not None and (odd.rank, odd.name, round(odd.more_s, 3)) == (1, "mm", 0.3)
