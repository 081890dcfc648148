# SPDX-License-Identifier: Apache-2.0
"""Readings of host memory that only rise."""

from __future__ import annotations

import pytest

from keepstep.model.facts.resource import MemoryGrew
from keepstep.parse.tools.programs import memory_readings as table


def lines(values):
    return "\n".join(f"[INFO] CPU Virtual Memory:  used = {value} GB, percent = 10.6%" for value in values)


def test_readings_that_rise_all_the_way_are_told(read, holds):
    assert holds(read(table, lines([20.1, 24.0, 28.2, 33.0, 37.4, 42.9, 47.0])), MemoryGrew)


def test_readings_that_level_off_say_nothing(read):
    assert read(table, lines([20.1, 30.0, 40.2, 40.3, 40.2, 40.3, 40.3, 40.3])) == []


def test_a_few_readings_say_nothing(read):
    assert read(table, lines([20.1, 30.0, 40.2])) == []


@pytest.mark.parametrize(
    ("text", "value", "free", "on_device"),
    [
        ("step 100 rss 6.1 GB", 6.1e9, False, False),
        ("Epoch: [0] mem: 8123MB", 8.123e9, False, True),
        ("Memory usage: 2816.0 (MB)", 2.816e9, False, True),
        ("RAM usage: 45.2%", 45.2, False, False),
        ("lr 0.0006 rank 0 RSS MEM USE: 46.51G", 46.51e9, False, False),
        ("INFO:root:epoch 5 psutil rss (MB): 1833.9", 1.8339e9, False, False),
        ("Epoch 2/100 - max rss 3120 MB", 3.12e9, False, False),
        ("pmem(rss=123456789, vms=3", 123456789.0, False, False),
        ("svmem(total=27, available=3, percent=81.2, used=", 81.2, False, False),
        ("Memory info of CPU: total:201.37Gb, available: 190.78Gb, percent: 5.3%", 190.78e9, True, False),
    ],
)
def test_a_reading_on_a_line_of_progress_is_read(text, value, free, on_device):
    fact = table.read_memory(text)
    assert fact is not None
    assert (round(fact.value, 3), fact.free, fact.on_device) == (value, free, on_device)


@pytest.mark.parametrize(
    "text",
    ["max_mem: 5000M", "memory: 6814, loss: 1.2", "Max memory allocated: 12GB", "class 12 GB", "loss 2.1 lr 0.1"],
)
def test_peaks_and_numbers_of_something_else_are_no_readings(text):
    assert table.read_memory(text) is None


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("DEBUG TRAIN Batch 0/185400 loss 9.7 lr 0.0006 rank 0 RSS MEM USE: 46.51G", 0),
        ("step 10 rank=3 mem: 8123MB", 3),
        ("lora rank 16 mem: 8123MB", None),
        ("local_rank: 2 mem: 8123MB", None),
    ],
)
def test_whose_reading_it_is_may_stand_in_the_midst_of_the_line(text, rank):
    fact = table.read_memory(text)
    assert fact is not None
    assert fact.rank == rank
