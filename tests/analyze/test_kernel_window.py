# SPDX-License-Identifier: Apache-2.0
"""This host's kernel log is looked at only for a run that was here."""

from __future__ import annotations

import time

import pytest

from keepstep.analyze.kernel_window import kernel_evidence
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.training import StreamEnded

HOUR = 3600.0


def looks(*, last_line: float, last_change: float) -> bool:
    ended = Evidence(
        fact=StreamEnded(last="step 7"), origin=Origin(source="rank0.log", line=9), at=last_line, quote="step 7"
    )
    _, coverage = kernel_evidence([ended], [last_change])
    return bool(coverage)


def test_a_log_that_was_written_here_is_looked_up() -> None:
    now = time.time()
    assert looks(last_line=now - 5, last_change=now - 4)


def test_times_in_the_zone_of_this_host_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-5")
    time.tzset()
    try:
        now = time.time()
        assert looks(last_line=now + 5 * HOUR, last_change=now)
        assert not looks(last_line=now + 3 * HOUR, last_change=now)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_log_that_was_copied_from_elsewhere_is_not() -> None:
    now = time.time()
    assert not looks(last_line=now - 2 * HOUR, last_change=now)


def test_a_run_of_last_month_is_not() -> None:
    long_ago = time.time() - 30 * 24 * HOUR
    assert not looks(last_line=long_ago, last_change=long_ago)
