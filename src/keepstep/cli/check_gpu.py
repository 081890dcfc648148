# SPDX-License-Identifier: Apache-2.0
"""``keepstep check gpu``: test the devices, judge, print."""

from __future__ import annotations

import argparse
import math
import sys

from keepstep.base.redact import redacted
from keepstep.check.checkup import judge
from keepstep.check.gpu.look import GpuCheck, GpuRequest
from keepstep.cli.print_report import print_report, say
from keepstep.errors import UserError

INTERRUPTED = 130


def check_gpu_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    for option, value in (("--minutes", asked.minutes), ("--host-memory", asked.host_memory)):
        if not (math.isfinite(value) and (value > 0 or option != "--minutes") and value >= 0):
            raise UserError(f"{option} must be more than 0", hint=f"it is {value:g}")
    check = GpuCheck(
        GpuRequest(
            framework=asked.framework,
            device=asked.device,
            minutes=asked.minutes,
            hottest=asked.hottest,
            host_bytes=int(asked.host_memory * (1 << 30)),
        ),
        _show if sys.stderr.isatty() else lambda line: None,
    )
    looked = check.look()
    _show("")
    report = redacted(judge(looked))
    print_report(report, as_json=asked.json)
    if check.interrupted:
        say("interrupted; this is what was seen until then")
        return INTERRUPTED
    return report.exit_status


def _show(line: str) -> None:
    """One line on a terminal, drawn over and over; nothing anywhere else."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
