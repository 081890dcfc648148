# SPDX-License-Identifier: Apache-2.0
"""Limits on open files, processes, threads and locked memory (``ulimit``), as libraries report them."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import LimitReached
from keepstep.parse.scan.signature import signature

_FORKS = lazy_pattern(r"what\(\):|fork|thread|clone|spawn|Popen|process|posix_spawn|runtime/cgo")


def _again(match: re.Match[str]) -> Fact | None:
    """EAGAIN is a limit only where something was to be started; sockets give it all the time."""
    return LimitReached(limit="processes or threads") if _FORKS.search(match.string) else None


SIGNATURES = (signature(r"[Rr]esource temporarily unavailable", _again),)
