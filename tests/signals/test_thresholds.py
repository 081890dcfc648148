# SPDX-License-Identifier: Apache-2.0
"""Limits: when one is passed for long enough, or will be, and when that is over."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from keepstep.extend.run_settings import DEFAULTS
from keepstep.signals.thresholds import Alert, Threshold, Thresholds

MEMORY = Threshold("host_memory_share", 0.9, for_s=30)


def alerts(row: Threshold, values: Iterable[float], *, every_s: float = 1.0) -> list[tuple[int, bool]]:
    """When an alert begins (True) or ends, as numbers of the values."""
    watched = Thresholds((row,))
    return [
        (number, alert.begins)
        for number, value in enumerate(values)
        for alert in watched.see({"a": {row.reading: value}}, number * every_s)
    ]


def test_a_short_peak_is_no_alert() -> None:
    assert alerts(MEMORY, [0.5] * 10 + [0.95] * 29 + [0.5] * 100) == []


def test_an_alert_begins_once_and_ends_once() -> None:
    assert alerts(MEMORY, [0.95] * 200 + [0.5] * 100) == [(30, True), (230, False)]


def test_a_value_that_swings_around_the_limit_gives_one_alert() -> None:
    swings = [0.95] * 40 + [0.88 + 0.04 * (number % 2) for number in range(400)]
    assert alerts(MEMORY, swings) == [(30, True)]
    slowly = [0.9 + 0.04 * math.sin(number / 40) for number in range(2000)]
    assert [begins for _, begins in alerts(MEMORY, slowly)].count(True) == 1


@pytest.mark.parametrize("row", DEFAULTS, ids=lambda row: row.reading)
def test_each_usual_limit_gives_one_alert_of_a_value_that_is_never_long_beyond_it(row: Threshold) -> None:
    worse, better = (0.99, 1.5) if row.below else (1.01, 0.5)
    if row.reading == "gpu_ecc":  # a number of errors, which only grows
        swings = [0.0] * 10 + [float(1 + number // 50) for number in range(300)]
        assert alerts(row, swings) == [(10, True)]
        return
    beyond, between, long = row.limit * worse, (row.limit + row.is_clear_at) / 2, int(row.for_s)
    swings = [beyond if number // 10 % 2 == 0 else between for number in range(long + 200)]
    (begun, ended) = alerts(row, swings + [row.is_clear_at * better] * (long + 60))
    assert begun[1] and long <= begun[0] <= long + 20 and not ended[1]


def test_a_dip_of_a_second_does_not_begin_it_anew() -> None:
    long = Threshold("net_share", 0.9, for_s=300)
    assert alerts(long, ([0.95] * 99 + [0.5]) * 4) == [(300, True)]
    assert alerts(long, ([0.95] * 80 + [0.5] * 20) * 8) == []


def test_two_short_peaks_far_apart_are_no_alert() -> None:
    assert alerts(MEMORY, [0.95] * 5 + [0.89] * 60 + [0.95] * 5 + [0.89] * 60) == []


def test_a_forecast_that_did_not_come_true_is_not_made_of_the_same_values_again() -> None:
    watched = Thresholds((DEFAULTS[0],))
    teeth = [0.5 + 0.25 * (number % 200) / 200 for number in range(4000)]
    found = [
        alert.words("share", "memory")
        for number, value in enumerate(teeth)
        for alert in watched.see({"a": {"host_memory_share": value}}, float(number))
    ]
    assert [words.partition("; ")[2] != "" for words in found] == [True, False], found
    assert found[1].endswith("no longer on the way to 92 %")


def test_each_rank_has_an_episode_of_its_own() -> None:
    watched = Thresholds((Threshold("files_share", 0.8, for_s=0),))
    seen = [
        list(watched.see({0: {"files_share": 0.9}, 1: {"files_share": share}}, at))
        for at, share in enumerate((0.1, 0.9))
    ]
    assert [[alert.subject for alert in each] for each in seen] == [[0], [1]]


def test_less_may_be_worse() -> None:
    assert alerts(Threshold("gpu_busy", 0.1, below=True, for_s=5), [0.9] * 5 + [0.0] * 20 + [0.9] * 20) == [
        (10, True),
        (30, False),
    ]


def test_a_steady_rise_is_told_before_the_limit_is_reached() -> None:
    rising = Threshold("disk_share", 0.95, for_s=30, forecast_s=600)
    (at, begins), *more = alerts(rising, [0.5 + number * 0.0005 for number in range(850)])
    assert begins and 30 <= at < 850 and not more
    (alert,) = [
        alert
        for number in range(850)
        for alert in _SEEN.see({"a": {"disk_share": 0.5 + number * 0.0005}}, float(number))
    ]
    assert alert.in_s is not None and 0 < alert.in_s <= 600


_SEEN = Thresholds((Threshold("disk_share", 0.95, for_s=30, forecast_s=600),))


def test_noise_is_no_forecast() -> None:
    noise = [0.6 + 0.2 * (number * 7919 % 101) / 101 for number in range(1000)]
    assert alerts(Threshold("disk_share", 0.95, forecast_s=600), noise) == []


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (Alert(MEMORY, "node-1", 0.95), "node-1, memory: 95 %, above 90 % for 30 s"),
        (Alert(MEMORY, "node-1", 0.95, swung=True), "node-1, memory: 95 %, above 90 % again and again for 30 s"),
        (Alert(MEMORY, "node-1", 0.5, begins=False), "node-1, memory: 50 %, no longer above 90 %"),
        (Alert(MEMORY, 3, 0.7, in_s=300.0), "rank 3, memory: 70 %; at this rate it reaches 90 % in 5 min"),
    ],
)
def test_it_says_what_was_read_and_of_whom(alert: Alert, words: str) -> None:
    assert alert.words("share", "memory") == words
