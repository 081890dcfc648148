# SPDX-License-Identifier: Apache-2.0
"""``keepstep check collectives``: try them, print the table of what they took, and the report."""

from __future__ import annotations

import argparse

from keepstep.base.redact import redacted
from keepstep.check.checkup import Checked, CheckRequest, check
from keepstep.check.collectives.choose import plan_for
from keepstep.check.collectives.plan import BYTES, MIB
from keepstep.cli.print_report import print_report
from keepstep.errors import UserError
from keepstep.render.collective_table import render_collective_table


def check_collectives_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    dtypes = tuple(asked.dtypes.split(","))
    if unknown := [each for each in dtypes if each not in BYTES]:
        raise UserError(f"no such type: {unknown[0]}", hint=f"the types are {', '.join(BYTES)}")
    if min(asked.ranks, asked.devices, asked.largest, asked.rounds) < 1:
        raise UserError("--ranks, --devices, --largest and --rounds must be at least 1")
    if not (asked.bytes_per_step >= 0 and asked.step_time >= 0):
        raise UserError("--bytes-per-step and --step-time must not be negative")
    plan = plan_for(
        asked.framework,
        backend=asked.backend,
        dtypes=dtypes,
        largest=asked.largest * MIB,
        rounds=asked.rounds,
        ranks=asked.ranks,
        devices=asked.devices,
        limit_s=asked.limit,
    )

    def tell(checked: Checked) -> None:
        assert checked.report is not None
        if not asked.json:
            print(render_collective_table(checked.seen, int(asked.bytes_per_step), asked.step_time), end="")
        print_report(redacted(checked.report), as_json=asked.json)

    return check(CheckRequest(parts=(), collectives=plan, meet=asked.meet), tell=tell).status
