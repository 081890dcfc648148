# SPDX-License-Identifier: Apache-2.0
"""``keepstep lab nodes``: faults between machines."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path

from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError
from keepstep_lab.nodes.table import SCENARIOS
from keepstep_lab.nodes.trial import NodeOutcome, NodeScenario, run_one

SCHEMA = "keepstep.lab.nodes/1"


def nodes(asked: argparse.Namespace) -> int:
    """Do what was asked. Exit status: 0 all as expected, 1 not, 3 nothing could run here."""
    names = [asked.name] if asked.nodes_ask == "run" else asked.names
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        hint = did_you_mean(unknown[0], SCENARIOS, "`keepstep lab nodes list` lists them")
        raise UserError(f"no such scenario: {unknown[0]}", hint=hint)
    chosen = [SCENARIOS[name] for name in names or SCENARIOS]
    return _list(asked, chosen) if asked.nodes_ask == "list" else _score(asked, chosen)


def _list(asked: argparse.Namespace, chosen: list[NodeScenario]) -> int:
    if asked.json:
        keys = ("name", "note", "machines", "nodes", "per_node", "cause", "host", "ranks", "attempts", "statuses")
        print(json.dumps([{key: getattr(each, key) for key in keys} for each in chosen], indent=1))
        return 0
    width = shutil.get_terminal_size().columns - 1
    for each in chosen:
        print(f"{each.name:28} {each.machines} machines  {each.cause or 'nothing to report'}")
        print(textwrap.fill(each.note, width, initial_indent="    ", subsequent_indent="    "))
    print(f"\n{len(chosen)} scenarios between machines")
    return 0


def _score(asked: argparse.Namespace, chosen: list[NodeScenario]) -> int:
    keep = Path(asked.keep) if getattr(asked, "keep", None) else None
    outcomes = []
    for each in chosen:
        outcomes.append(run_one(each, keep))
        if not asked.json:
            print(row(outcomes[-1]), flush=True)
    if asked.json:
        print(json.dumps({"schema": SCHEMA, "outcomes": [asdict(each) for each in outcomes]}, indent=1))
    else:
        print(f"\n{sum(each.right for each in outcomes)} of {len(outcomes)} as it must be")
    if all(each.skipped for each in outcomes):
        return 3
    return 1 if any(each.wrong for each in outcomes) else 0


def row(outcome: NodeOutcome) -> str:
    """One line, and one more for each thing that is wrong."""
    if outcome.skipped:
        return f"skipped  {outcome.scenario:28} {outcome.skipped}"
    times = [
        f"{what} after {seconds:.1f} s"
        for what, seconds in (("named", outcome.named_s), ("back", outcome.back_s))
        if seconds is not None
    ]
    said = f"{outcome.title} [{outcome.cause}]" if outcome.cause is not None else "nothing reported"
    line = f"{'right' if outcome.right else 'WRONG':8} {outcome.scenario:28} {'; '.join([said, *times])}"
    return "\n".join([line, *(textwrap.indent(each, "         ") for each in outcome.wrong)])
