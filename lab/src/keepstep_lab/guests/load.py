# SPDX-License-Identifier: Apache-2.0
"""Keep this machine busy while guests are judged: a rank that only lacks a processor must not be blamed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from keepstep_lab.score import end_with_the_parent

SPIN = "while True: pass"


@contextlib.contextmanager
def loaded(processes: int) -> Iterator[None]:
    """This many processes that always want a processor."""
    busy = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", SPIN], preexec_fn=end_with_the_parent)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
