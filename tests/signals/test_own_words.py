# SPDX-License-Identifier: Apache-2.0
"""What a program itself said last, below which launchers and crash handlers write."""

from __future__ import annotations

from keepstep.model.facts.training import StreamEnded
from keepstep.signals.own_words import own_words


def test_what_others_wrote_below_is_left_out() -> None:
    end = StreamEnded(
        last="Aborted (core dumped)",
        above=(
            "promote: copying 302 GiB",
            "promote: 268 GiB copied",
            "W0909 13:12:15.000 1200 torch/distributed/elastic/api.py:900] Sending process 1311 closing signal SIGTERM",
            "slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2026-05-07T05:41:18 DUE TO TIME LIMIT ***",
            "Fatal Python error: Aborted",
            "Thread 0x00007f35 (most recent call first):",
            'File "a.py", line 1 in b',
        ),
    )
    assert own_words(end) == ["promote: 268 GiB copied", "promote: copying 302 GiB"]
