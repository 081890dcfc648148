# SPDX-License-Identifier: Apache-2.0
"""Python's own watchdog, ``faulthandler.dump_traceback_later``: what it prints above the stacks."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import StacksAtLimit
from keepstep.parse.scan.signature import by_hand, signature


def _limit(match: re.Match[str]) -> Fact:
    hours, minutes, seconds = match["hours"], match["minutes"], match["seconds"]
    return StacksAtLimit(seconds=int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds))


SIGNATURES = (
    # Timeout (0:00:08)!
    signature(
        r"^Timeout \((?P<hours>\d{1,6}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d{1,9})?)\)!\s*$",
        _limit,
        anchors=by_hand("the rest are digits", "Timeout ("),
    ),
)
