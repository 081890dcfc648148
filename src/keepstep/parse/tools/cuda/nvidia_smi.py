# SPDX-License-Identifier: Apache-2.0
"""What ``nvidia-smi`` shows about an unhealthy GPU: its table, and the long form of ``-q``."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.scan.signature import signature

_ROW = r"\|\s{1,5}(?P<index>\d{1,3})\s+\S[^|\n]{2,60}\| +(?P<device>0000[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+\S{2,3}\s*\|"


def _errors(match: re.Match[str]) -> Fact | None:
    count = match["count"]
    if count == "0":
        return None
    what = "nvidia-smi cannot read it (ERR!)" if count == "ERR!" else f"{count} uncorrected memory errors"
    return DeviceFault(what=what, device=match["device"])


SIGNATURES = (signature(_ROW + r"\s*(?P<count>\d{1,9}|ERR!)\s*\|", _errors),)
