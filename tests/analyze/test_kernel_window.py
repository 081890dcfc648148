# SPDX-License-Identifier: Apache-2.0
"""This host's kernel log is looked at only for a run that was here."""

from __future__ import annotations

import time

import pytest

from keepstep.analyze import kernel_window
from keepstep.analyze.kernel_window import kernel_evidence, said_about
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.platform import DeviceFault
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


@pytest.mark.parametrize(
    ("number", "felt", "counts"),
    [(43, False, [5]), (43, True, [5, 7]), (79, False, [5, 7])],
    ids=["another program's own error", "the run felt one", "a fault of the device"],
)
def test_faults_of_a_gpu_that_is_shared(
    number: int, felt: bool, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Xid 43 of a program that somebody else ended beside this one was called the cause of our KeyError."""
    words = f"NVRM: Xid (PCI:0000:00:06): {number}, pid=%d, name=python, channel 0x0000000a"
    monkeypatch.setattr(kernel_window, "read_kernel_log", lambda *_: ([(1.0, words % 5), (2.0, words % 7)], []))
    found, _ = said_about({5}, 3.0, broken=True, felt=felt)
    assert sorted({each.fact.pid or 0 for each in found if isinstance(each.fact, DeviceFault)}) == counts
