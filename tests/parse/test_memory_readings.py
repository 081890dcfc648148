# SPDX-License-Identifier: Apache-2.0
"""Readings of host memory that only rise."""

from __future__ import annotations

from keepstep.core.facts.resource import MemoryGrew
from keepstep.parse import memory_readings as table


def lines(values):
    return "\n".join(f"[INFO] CPU Virtual Memory:  used = {value} GB, percent = 10.6%" for value in values)


def test_readings_that_rise_all_the_way_are_told(read, holds):
    assert holds(read(table, lines([20.1, 24.0, 28.2, 33.0, 37.4, 42.9, 47.0])), MemoryGrew)


def test_readings_that_level_off_say_nothing(read):
    assert read(table, lines([20.1, 30.0, 40.2, 40.3, 40.2, 40.3, 40.3, 40.3])) == []


def test_a_few_readings_say_nothing(read):
    assert read(table, lines([20.1, 30.0, 40.2])) == []
