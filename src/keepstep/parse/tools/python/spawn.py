# SPDX-License-Identifier: Apache-2.0
"""Python's own ways to start processes: torch.multiprocessing.spawn, concurrent.futures, multiprocessing."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import ForkOrThread
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.system.windows import as_signal


def _ended(match: re.Match[str]) -> Fact:
    code = int(match["code"])
    return ProcessExited(reporter="spawn", rank=int(match["rank"]), code=code, signal=as_signal(code), first=True)


SIGNATURES = (
    signature(
        r"(?P<what>An attempt has been made to start a new process before the current process has finished its bootstrapping)",
        ForkOrThread,
    ),
    signature(
        r"(?P<what>\w{3,40} objects should only be shared between processes through inheritance|A SemLock created in a \w{4,12} context is being shared"
        r" with a process in a \w{4,12} context)",
        ForkOrThread,
    ),
    signature(
        r"process (?P<rank>\d+) terminated with signal (?P<signal>SIG\w+)", ProcessExited, reporter="spawn", first=True
    ),
    signature(r"process (?P<rank>\d+) terminated with exit code (?P<code>-?\d+)", _ended),
)
