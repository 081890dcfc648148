# SPDX-License-Identifier: Apache-2.0
"""When a line was written, by any of the clocks that training logs carry. Pure."""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass
from functools import lru_cache

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.digits import zeros

_MONTHS = {
    m: n for n, m in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}

_FULL = lazy_pattern(
    r"(?P<y>20\d\d|19\d\d)[-/.](?P<mo>\d\d)[-/.](?P<d>\d\d)[T _](?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
    r"(?P<z>Z|[+-]\d\d:?\d\d)?"
)
# glog and absl: E0607 10:10:14.749000 / E20240607 10:10:14.749 / [E901 08:12:24.549
_GLOG = lazy_pattern(
    r"\b[IWEFDVC](?P<y>20\d\d)?(?P<mo>\d{1,2})(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,9}))?"
)
# TensorFlow before its logger is set up: I0000 00:00:1794706907.315648
_EPOCH = lazy_pattern(r"\b[IWEF]0000 00:00:(?P<epoch>\d{9,10}\.\d+)")
_SYSLOG = lazy_pattern(
    r"\b(?P<mon>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,9}))?(?: (?P<y>20\d\d))?"
)
_TIME = lazy_pattern(r"(?<![\d:.])(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?(?![\d:])")

HEAD = 160
"""Clocks stand at the beginning of a line; a date further in is data."""
COLONS = 2
"""Each of them has hours, minutes and seconds."""


UNDATED = 1972
"""The year, and its first day the day, of times whose lines state none. It has a 29 February."""
LATEST_S = 2 * 86400.0
"""A log cannot end later than its file was written; zones differ."""
_LIKE = "00:00:0"
"""How each of them looks with zeros for digits."""


@lru_cache(maxsize=256)
def _midnight(year: int, month: int, day: int) -> int:
    return calendar.timegm((year, month, day, 0, 0, 0))


class Clock:
    """Reads the times of one file. Years and days that lines omit come from earlier ones."""

    def __init__(self, year: int, day: tuple[int, int] | None = None) -> None:
        self._year = year
        self._day = day
        self.year_read: int | None = None
        self.day_read: tuple[int, int] | None = None
        """The first year and day that lines state; times before those lines have the assumed ones."""

    def read(self, line: str) -> float | None:
        """Seconds since the epoch, or None where the line carries no time."""
        head = line[:HEAD]
        if head.count(":") < COLONS or (head.isascii() and _LIKE not in zeros(head)):
            return None
        match = _FULL.search(head)
        if match:
            year, day = int(match["y"]), (int(match["mo"]), int(match["d"]))
            at = self._seconds(match, year, *day, zone=match["z"])
            if at is not None:
                self._year, self._day = year, day
                self.year_read, self.day_read = self.year_read or year, self.day_read or day
            return at
        match = _EPOCH.search(head)
        if match:
            at = float(match["epoch"])
            self.year_read = self.year_read or time.gmtime(at).tm_year
            return at
        match = _GLOG.search(head)
        if match:
            return self._on_day(match, int(match["mo"]), int(match["d"]))
        match = _SYSLOG.search(head)
        if match and match["mon"].lower() in _MONTHS:
            return self._on_day(match, _MONTHS[match["mon"].lower()], int(match["d"]))
        match = _TIME.search(head[:60])
        if match and self._day is not None:
            return self._seconds(match, self._year, *self._day)
        return None

    def _on_day(self, match: re.Match[str], month: int, day: int) -> float | None:
        at = self._seconds(match, int(match["y"] or self._year), month, day)
        if at is not None:
            self._day = (month, day)
            self.day_read = self.day_read or self._day
        return at

    @staticmethod
    def _seconds(match: re.Match[str], year: int, month: int, day: int, zone: str | None = None) -> float | None:
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        hours, minutes, seconds, fine = match.group("h", "mi", "s", "f")
        whole = _midnight(year, month, day) + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        fraction = float(f"0.{fine}") if fine else 0.0
        shift = 0
        if zone and zone != "Z":
            digits = zone[1:].replace(":", "")
            shift = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
        return whole + fraction - shift


@dataclass(frozen=True)
class Dates:
    """What the lines of a log state about its date. ``modified``: when its file was written, perhaps a later copy."""

    modified: float
    year: int | None = None
    day: tuple[int, int] | None = None

    def dated(self, at: float) -> float:
        """A time that was read with the year and day of ``UNDATED``: on the day, or in the year, that it belongs to."""
        if at >= _midnight(UNDATED + 1, 1, 1) or at < _midnight(UNDATED, 1, 1):
            return at
        written = time.gmtime(self.modified)
        if at < _midnight(UNDATED, 1, 2):
            month, day = self.day or (written.tm_mon, written.tm_mday)
            at += _midnight(UNDATED, month, day) - _midnight(UNDATED, 1, 1)
        if self.year is not None:
            return _in_year(at, self.year)
        found = _in_year(at, written.tm_year)
        return found if found < self.modified + LATEST_S else _in_year(at, written.tm_year - 1)


def _in_year(at: float, year: int) -> float:
    """The same day and time in another year than ``UNDATED``."""
    when = time.gmtime(at)
    return at + _midnight(year, when.tm_mon, when.tm_mday) - _midnight(UNDATED, when.tm_mon, when.tm_mday)
