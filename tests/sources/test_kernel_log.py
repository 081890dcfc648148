# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

from keepstep.model.evidence import CoverageState
from keepstep.sources.host import kernel_log
from keepstep.sources.host.kernel_log import parse_record, read_kernel_log


def test_a_record_has_a_time_since_boot_and_text() -> None:
    record = "6,339,5140900,-;python[42]: segfault at 8 ip 7f sp 7f error 4 in libx.so[7f+1]\n SUBSYSTEM=x\n"
    assert parse_record(record, booted=1000.0) == (
        1005.1409,
        "python[42]: segfault at 8 ip 7f sp 7f error 4 in libx.so[7f+1]",
    )
    assert parse_record("nonsense", 0.0) is None


def test_the_log_is_read_or_the_coverage_says_why_not() -> None:
    now = time.time()
    lines, (coverage,) = read_kernel_log(now - 600, now)
    assert all(now - 601 <= at <= now + 1 for at, _ in lines)
    assert coverage.state is CoverageState.CHECKED or (coverage.why and not lines)


def test_every_closed_way_is_named(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(kernel_log, "_KMSG", "/nonexistent/kmsg")
    monkeypatch.setenv("PATH", "/nonexistent")
    lines, (coverage,) = read_kernel_log(time.time() - 60, None)
    assert lines == []
    assert coverage.state is CoverageState.UNAVAILABLE
    assert "journalctl is not installed" in coverage.why and "dmesg is not installed" in coverage.why
