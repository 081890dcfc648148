"""One rank's log by another clock: who began it must not change, and the report says what was corrected."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.report import Report
from keepstep.render.json import render_json
from keepstep.render.terminal import render_terminal
from tests.analyze.clock_shift import shifted
from tests.lazy_framework import need_framework

RECORDINGS = Path(__file__).parents[1] / "recordings"


def moved(recording: str, folder: Path, log: str, seconds: int) -> Report:
    """The report on a recording in which one log has another clock."""
    copy = folder / f"{recording}{seconds}"
    shutil.copytree(RECORDINGS / recording, copy)
    before = (copy / log).read_text()
    (copy / log).write_text(shifted(before, seconds))
    assert (copy / log).read_text() != before
    return explain_paths([copy], kernel_log=False).report


def answer(report: Report) -> tuple[object, ...]:
    root = report.root
    return report.verdict, root and root.cause, root and sorted(root.ranks), root and root.title


@cache
def usual(recording: str) -> tuple[object, ...]:
    return answer(explain_paths([RECORDINGS / recording], kernel_log=False).report)


@pytest.mark.parametrize("seconds", (300, 3 * 3600, -900))
@pytest.mark.parametrize(
    ("recording", "log"),
    (
        ("torch_last_batch", "rank0.log"),
        ("torch_loader_killed", "rank1.log"),
        ("torch_nan_loss", "rank1.log"),
        ("torch_segfault", "rank0.log"),
        ("torch_truncated_checkpoint", "rank1.log"),
        ("torch_mesh_killed", "rank5.log"),
        ("torch_preempted_four", "rank1.log"),
        ("torch_other_dcp", "rank2.log"),
        ("jax_preempted", "rank2.log"),
        ("jax_key_error", "rank2.log"),
        ("jax_sigkill", "rank3.log"),
        ("jax_batch_not_divisible", "rank0.log"),
        ("tf_preempted", "rank1.log"),
        ("tf_last_batch", "rank0.log"),
        ("tf_sigkill", "rank2.log"),
    ),
)
def test_the_first_rank_is_the_same_whatever_clock_a_host_has(
    recording: str, log: str, seconds: int, tmp_path: Path
) -> None:
    assert answer(moved(recording, tmp_path, log, seconds)) == usual(recording)


@pytest.mark.parametrize(
    "recording", ("torch_nan_loss", "torch_mesh_healthy", "jax_healthy", "jax_divergence", "tf_healthy_mwms")
)
def test_clocks_of_one_host_are_left_alone(recording: str) -> None:
    assert not explain_paths([RECORDINGS / recording], kernel_log=False).report.clocks


@pytest.mark.parametrize("recording", ("torch_nan_loss_four", "jax_nan", "torch_starved_cpu"))
def test_real_clocks_that_were_wrong_are_found(recording: str) -> None:
    """The lab recorded these with libfaketime: rank 1 was 41 s ahead, rank 2 17 s behind, rank 3 in Tokyo."""
    report = explain_paths([RECORDINGS / recording], kernel_log=False).report
    found = {clock.ranks: (round(clock.offset_s), clock.zone, clock.against) for clock in report.clocks}
    assert found == {(1,): (41, False, (0,)), (2,): (-17, False, (0,)), (3,): (32400, True, (0,))}


def test_the_report_says_what_was_corrected(tmp_path: Path) -> None:
    report = moved("torch_mesh_killed", tmp_path, "rank6.log", 300)
    text = " ".join(render_terminal(report).split())
    assert "the clock of rank 6: 300 s ahead of ranks 2, 3 and 7, by 4 shared steps; its times were corrected" in text
    (clock,) = json.loads(render_json(report))["clocks"]
    assert (clock["logs"], round(clock["ahead_s"]), clock["events"]) == (["rank6.log"], 300, 4)


TRAIN = """
import datetime, logging, os, select, sys
import torch.distributed as dist
import torch
logging.basicConfig(format="%(asctime)s %(levelname)s rank=%(rank)s %(message)s", stream=sys.stdout, level=logging.INFO)
rank = int(os.environ["RANK"])
log = logging.LoggerAdapter(logging.getLogger(), {"rank": rank})
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
log.info("process group is up: world size %d", dist.get_world_size())
for step in range(10, 60, 10):
    loss = torch.ones(1)
    dist.all_reduce(loss)
    log.info("step %d loss %.3f", step, loss.item())
    select.select([], [], [], 0.2)  # time.sleep() fails under libfaketime
if rank == 0:
    select.select([], [], [], 8)
log.error("bad sample")
raise KeyError("label")
"""
"""Rank 1 fails eight seconds before rank 0 does."""


@pytest.mark.frameworks
@pytest.mark.parametrize("off", ("+300s", pytest.param("+40s", marks=pytest.mark.long)))
def test_two_gloo_ranks_of_which_one_has_a_wrong_clock(off: str, tmp_path: Path) -> None:
    need_framework("torch")
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    if library is None:
        pytest.skip("libfaketime is not installed")
    (tmp_path / "train.py").write_text(TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    wrong = {"LD_PRELOAD": str(library), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    logs = tmp_path / "logs"
    logs.mkdir()
    ranks = []
    for rank in (0, 1):
        clock = wrong if rank == 1 else {}
        with (logs / f"rank{rank}.log").open("wb") as out:
            command = [sys.executable, str(tmp_path / "train.py")]
            ranks.append(subprocess.Popen(command, env={**env, **clock, "RANK": str(rank)}, stdout=out, stderr=out))
    for each in ranks:
        each.wait(timeout=120)
    report = explain_paths([logs], kernel_log=False).report
    assert report.root is not None
    assert (report.root.cause.value, report.root.ranks) == ("user.code_exception", (1,))
    (clock_found,) = report.clocks
    ahead = float(re.sub("[^-0-9]", "", off))
    assert clock_found.ranks == (1,)
    assert abs(clock_found.offset_s - ahead) < 2.0
    assert clock_found.events >= 5
