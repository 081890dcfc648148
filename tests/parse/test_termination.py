# SPDX-License-Identifier: Apache-2.0
"""Requests to end."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import Preempted
from keepstep.core.facts.process import TerminationRequested
from keepstep.parse.tools.system import termination as table

WORDINGS = [
    (
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 5752 got signal: 15",
        TerminationRequested,
        {"signal": "SIGTERM", "pid": 5752},
    ),
    (
        "W1115 api.py:753] Received 15 death signal, shutting down workers",
        TerminationRequested,
        {"signal": "SIGTERM", "by": None},
    ),
    ("Received 1 death signal, shutting down workers", TerminationRequested, {"signal": "SIGHUP"}),
    ("Received SIGTERM, saving checkpoint", TerminationRequested, {"signal": "SIGTERM"}),
    ("Signal handler called with signal 15", TerminationRequested, {"signal": "SIGTERM"}),
    ("Member worker/0 has received termination notice.", Preempted, {}),
    ("Spot instance interruption notice received", Preempted, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Registered SIGTERM handler",
        "[   15.353167] systemd-journald[3450]: Received SIGTERM from PID 1 (systemd).",
        "Cancelled call to retrieve preemption notice. This is expected upon program shutdown.",
        "Sending process 5757 closing signal SIGTERM",
        "This can happen if the node was preempted, or raylet crashed unexpectedly on that node.",
        "This can happen if the node was preempted, had a hardware failure, or its raylet crashed unexpectedly.",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
