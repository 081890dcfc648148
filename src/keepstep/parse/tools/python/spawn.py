# SPDX-License-Identifier: Apache-2.0
"""Python's own ways to start processes: torch.multiprocessing.spawn, concurrent.futures, multiprocessing."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.system.windows import as_signal


def _ended(match: re.Match[str]) -> Fact:
    code = int(match["code"])
    return ProcessExited(reporter="spawn", rank=int(match["rank"]), code=code, signal=as_signal(code), first=True)


SIGNATURES = (signature(r"process (?P<rank>\d+) terminated with exit code (?P<code>-?\d+)", _ended),)
