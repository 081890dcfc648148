# SPDX-License-Identifier: Apache-2.0
"""Watchdogs that people put around their runs: what they say when they saw no progress and gave up."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import NoProgress
from keepstep.parse.scan.signature import by_hand, signature

REACH = 120
"""How far from the words for a stall those for the end may be."""
_ENDS = lazy_pattern(
    r"(?i)\b(?:kill(?:ing|ed)?|terminat(?:e|ing|ed)|cancel(?:l?ing|l?ed)?|abort(?:ing|ed)?|stopp(?:ing|ed)|shut(?:ting)? ?down|giv(?:ing|en) up|gave up"
    r"|ending|tearing down|restart(?:ing|ed)|interrupt(?:ing|ed)|evict(?:ing|ed)|(?:sending|sent) SIG\w+|SIGTERM|SIGKILL|SIGABRT|SIGINT)\b"
)
_SPARED = lazy_pattern(
    r"(?i)\b(?:if|unless|would|will be|may|might|not (?:kill|terminat|abort|stop)\w*|epochs?|improve\w*|connection|socket|session|early|warn(?:ing)? only)\b"
)
_MEMBERS = lazy_pattern(
    r"(?i)\b(?:from|of|by|for) (?:global )?(?:ranks?|workers?|tasks?|process(?:es)?)[ =:#\[(]{0,2}(?P<ranks>\d{1,5}(?:(?:, ?| and )\d{1,5})*)"
)
_SUBJECT = lazy_pattern(r"(?i)\b(?:rank|worker)[ #=-]?(?P<rank>\d{1,5})\b[^\n\d,;:]{0,30}$")
_KNOWN = lazy_pattern(
    r"ProcessGroup|c10d|\b(?i:horovod)|Stalled (?:ranks|ops|tensors)|One or more|coordination|tensorflow|grpc|\bRay\b|raylet|NCCL (?:INFO|WARN)"
    r"|[Ww]atchdog (?:got|is|was|thread)"
)
"""Watchdogs of frameworks, which have tables of their own."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = r"(?P<time>\d{1,6}(?:\.\d{1,3})?) ?(?P<unit>ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b"


def _gave_up(match: re.Match[str]) -> Fact | None:
    text = match.string
    around = text[max(0, match.start() - REACH) : match.end() + REACH]
    if not _ENDS.search(around) or _SPARED.search(around) or _KNOWN.search(around):
        return None
    members = _MEMBERS.search(match[0])
    missing = tuple(int(n) for n in re.findall(r"\d+", members["ranks"])) if members else ()
    subject = _SUBJECT.search(text, max(0, match.start() - REACH), match.start())
    if not missing and subject:
        missing = (int(subject["rank"]),)
    unit = match["unit"] if match["unit"] == "ms" else match["unit"][0]
    return NoProgress(seconds=float(match["time"]) * _UNITS[unit], missing=missing)


SIGNATURES = (
    # no progress for 35 s, cancelling rank 0; killing the job: no heartbeat from rank 3 for 120 s
    signature(
        r"\b(?:[Nn]o|NO|without|[Mm]issing) (?:any |further |new |more )?(?:training |step |log |console )?(?:progress|outputs?|heartbeats?|activity|log lines?|lines|updates?|steps?)\b"
        rf"[^\n;]{{0,60}}?(?<![\w.]){_TIME}",
        _gave_up,
        anchors=by_hand(
            "each of the words is common; what is missed is rare",
            *("o progress", "o output", "o heartbeat", "o activity", "o log ", "o new log", "o new line", "o new output", "out progress", "ny progress"),
            *("training progress", "issing heartbeat"),
        ),
    ),
    # training stalled for 600 s, killing it; rank 2 appears hung (1800s), sending SIGABRT
    signature(
        rf"\b(?:stalled|stuck|hung|unresponsive)\b[^\n;]{{0,60}}?(?<![\w.]){_TIME}",
        _gave_up,
        anchors=by_hand("short words, and rare ones", "stalled", " stuck ", " hung", "unresponsive"),
    ),
)  # fmt: skip
