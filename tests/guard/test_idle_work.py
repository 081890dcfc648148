# SPDX-License-Identifier: Apache-2.0
"""Work with the lowest priority that is done anyway where the machine never rests."""

from __future__ import annotations

import os
import threading

import pytest

from keepstep.guard.record.idle_work import IdleWork


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_it_has_the_lowest_priority() -> None:
    assert IdleWork().do(priority) == 19


def test_what_comes_late_the_caller_does_and_waits_no_more() -> None:
    work, rested = IdleWork(), threading.Event()
    mine = threading.get_ident()

    def starved() -> int:
        if threading.get_ident() != mine:
            rested.wait()
        return threading.get_ident()

    assert work.do(starved) == mine
    assert not work.waits
    assert work.do(threading.get_ident) == mine
    rested.set()
    work.waits = True
    assert work.do(threading.get_ident) != mine


def test_what_it_raises_reaches_the_caller() -> None:
    def fails() -> None:
        raise OSError("the disk is gone")

    work = IdleWork()
    with pytest.raises(OSError, match="the disk is gone"):
        work.do(fails)
    assert work.do(lambda: 1) == 1
