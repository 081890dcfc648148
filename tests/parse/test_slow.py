# SPDX-License-Identifier: Apache-2.0
"""Words on slowness."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import DevicesNamed, Slowness, Throughput
from keepstep.parse.tools.programs import slow as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "Your program is HIGHLY input-bound because 67.1% of the total step time sampled is waiting for input.",
            "input",
        ),
        ("Your program is MODERATELY input-bound because 12.0% of the total step time sampled is waiting", "input"),
        ("STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [3]", "straggler"),
    ],
)
def test_what_is_slow_is_read(text, what):
    assert one(text, Slowness).what == what


def test_a_benchmark_tells_its_rate_and_devices():
    fact = one("Total img/sec on 4 GPU(s): 68.1 +-0.9", Throughput)
    assert (fact.rate, fact.devices) == (68.1, 4)


@pytest.mark.parametrize(
    "text",
    [
        "Your program is NOT input-bound because only 1.2% of the total step time sampled is waiting for input.",
        "✓ No stragglers detected.",
        "100\timages/sec: 300.18 +/- 0.1 (jitter = 0.6)",
        "# Avg bus bandwidth    : 187.2",
        "MinTFLOPs/Rank: 395.11TF/17 | MaxTFLOPs/Rank: 401.22TF/3",
        "|  get_train_batch  |  0.002  |  100  |  0.2  |  1.31  |",
        "started worker 3 on a host with 4 GPUs",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("|  get_train_batch             |  5.102   |  100   |  510.2   |  83.31   |", "input"),
        ("|  [_TrainingEpochLoop].train_dataloader_next  |  5.102   |  100   |  510.2   |  83.31   |", "input"),
        ("# Avg bus bandwidth    : 0.1712", "network"),
        ("1 node, 4 GPUs: total images/sec: 608.38; 2 nodes, 8 GPUs over 1 GbE: total images/sec: 176.11", "network"),
        ("MinTFLOPs/Rank: 201.11TF/17 | MaxTFLOPs/Rank: 401.22TF/3", "straggler"),
        ("         Rank=5 Node=gpu-a07 Score=0.52", "straggler"),
    ],
)
def test_what_tools_measure_is_read(text, what):
    assert one(text, Slowness).what == what


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Number of GPUs: 8", 8),
        ("mpirun -mca btl_tcp_if_include eth2 -np 2 -H a:1,b:1 python bench.py", 2),
        ("# 2 nodes, 8 GPUs", 8),
        ("3 nodes x 8:", 24),
        ("| training on 4 GPUs", 4),
        ("Batch size:  512 global\n             64 per device", 8),
        ("MultiWorkerMirroredStrategy with cluster_spec = {}, task_id = 0, num_workers = 2, local_devices = ()", 2),
    ],
)
def test_a_benchmark_names_its_devices(text, count):
    assert one(text, DevicesNamed).count == count


def test_a_rate_of_each_device_is_told_apart_from_that_of_all():
    assert one("Iter #0: 2.1 img/sec per CPU", Throughput).each
    assert not one("total images/sec: 884.12", Throughput).each
