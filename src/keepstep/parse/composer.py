# SPDX-License-Identifier: Apache-2.0
"""MosaicML Composer: its launcher."""

from __future__ import annotations

from keepstep.core.facts.process import ProcessExited
from keepstep.parse.signature import signature

SIGNATURES = (
    signature(
        r"Rank (?P<rank>\d+) crashed with exit code (?P<code>-?\d+)",
        ProcessExited,
        reporter="Composer's launcher",
        first=True,
    ),
    signature(
        r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<code>-?[1-9]\d*)",
        ProcessExited,
        reporter="Composer's launcher",
    ),
)
