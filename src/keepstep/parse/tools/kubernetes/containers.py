# SPDX-License-Identifier: Apache-2.0
"""How a container ended, as reported by Docker Compose, Determined, TonY and the batch services of clouds."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.signature import signature

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
_TOLD_TO_END = (0, 130, 143)


def _ended(match: re.Match[str]) -> Fact | None:
    """128 and a signal, or a code of the program's own."""
    code = int(match["code"])
    if code in _TOLD_TO_END:
        return None
    signal = _SIGNALS.get(code - 128)
    return ProcessExited(reporter="the container's runtime", code=None if signal else code, signal=signal)


SIGNATURES = (
    signature(
        r"container failed with non-zero exit code: (?:container failed with non-zero exit code: )?(?P<code>\d{1,3})\b",
        _ended,
    ),
    signature(r"^[\w.\-]{2,80}[-_]\d{1,4} exited with code (?P<code>\d{1,3})\s*$", _ended),
    signature(
        r"[Cc]ontainer(?: container_\w{8,80})?,? (?:exited with|finished with exitStatus:?|completed with exit status) (?P<code>\d{1,3})\b",
        _ended,
    ),
    signature(r"User process '\S{1,80}' exited with status code (?P<code>\d{1,3})", _ended),
    signature(
        r"OutOfMemoryError: Container killed due to memory usage",
        lambda m: OomKilled(by="the container's memory limit"),
    ),
)
