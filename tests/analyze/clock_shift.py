"""Logs as a host with another clock would have written them: every time in them moved by some seconds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_FULL = re.compile(r"(20\d\d)-(\d\d)-(\d\d)([ T])(\d\d):(\d\d):(\d\d)(?=[.,\d])")
_GLOG = re.compile(r"\b([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?=\.\d)")
_EPOCH = re.compile(r"(?<=\b[IWEF]0000 00:00:)(\d{10})(?=\.\d)")
YEAR = 2026
"""Of the recordings."""


def shifted(text: str, seconds: int) -> str:
    """The same log by a clock that is so many seconds ahead."""
    by = timedelta(seconds=seconds)

    def full(match: re.Match[str]) -> str:
        year, month, day, between, *clock = match.groups()
        when = datetime(*map(int, (year, month, day, *clock)), tzinfo=timezone.utc) + by  # type: ignore[arg-type]
        return when.strftime(f"%Y-%m-%d{between}%H:%M:%S")

    def glog(match: re.Match[str]) -> str:
        level, *numbers = match.groups()
        when = datetime(YEAR, *map(int, numbers), tzinfo=timezone.utc) + by  # type: ignore[arg-type]
        return level + when.strftime("%m%d %H:%M:%S")

    text = _FULL.sub(full, text)
    text = _GLOG.sub(lambda match: match[0] if match[2] == "00" else glog(match), text)
    return _EPOCH.sub(lambda match: str(int(match[1]) + seconds), text)
