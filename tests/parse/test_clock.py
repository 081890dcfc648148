"""Times in the formats that logs carry."""

import pytest

from keepstep.parse.scan.lines.line_times import Clock

DAY = 1732752000.0  # 2024-11-28 00:00:00 UTC


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("2024-11-28 18:04:49.642474: W tensorflow/core", 65089.642474),
        ("2024-11-28T18:04:49Z kubelet", 65089.0),
        ("2024-11-28T19:04:49+01:00 x", 65089.0),
        ("2024/11/28 18:04:49 x", 65089.0),
        ("E1128 18:04:49.500000 123 distributed_runtime/x.cc:1] boom", 65089.5),
        ("[rank1]:[E1128 18:04:49.500 ProcessGroupNCCL.cpp:1] boom", 65089.5),
        ("I0000 00:00:1732817089.250000    123 x.cc:1] y", 65089.25),
        ("Nov 28 18:04:49 host kernel: oom", 65089.0),
        ("18:04:49,250 INFO boom", 65089.25),
    ],
)
def test_a_time_is_read(line, seconds):
    assert Clock(2024, (11, 28)).read(line) == pytest.approx(DAY + seconds)


@pytest.mark.parametrize("line", ["no time", "shape 10:20:30:40", "ratio 1:2", "E9999 99:99:99 x"])
def test_what_is_no_time_is_none(line):
    assert Clock(2024, (11, 28)).read(line) is None


def test_a_full_date_completes_later_lines():
    clock = Clock(1999)
    clock.read("2024-11-28 01:00:00 start")
    assert clock.read("02:00:00 later") == pytest.approx(DAY + 7200)


def test_a_day_that_no_calendar_has_dates_no_other_line() -> None:
    clock = Clock(1972, (1, 1))
    assert clock.read("2026-13-45 10:00:00 step 1") is None
    assert clock.day_read is None and clock.read("10:00:01 step 2") is not None
