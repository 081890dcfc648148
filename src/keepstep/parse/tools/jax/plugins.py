# SPDX-License-Identifier: Apache-2.0
"""JAX and the plugin that drives its devices: packages of different versions that meet in one process."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature


def _no_handle(match: re.Match[str]) -> Fact:
    if match["built"] and "alloc" not in match["why"].lower():
        return CudaMismatch(what=f"cu{match['library']} could not start: {match['why'].strip()}")
    return DeviceMemoryExhausted(library=match["library"])


SIGNATURES = (
    # when a program runs, memory is short; when one is built, at a library's first use, the library does not fit
    signature(
        r"(?P<built>\bRuntimeError: (?:[\w./]{1,60}:\d+: )?)?operation (?:gpu|cu|hip|roc)(?P<library>solver|blas|sparse|fft|rand)(?:Dn)?Create\(&handle\)"
        r" failed: (?P<why>[^\n]{1,80})",
        _no_handle,
    ),
)
