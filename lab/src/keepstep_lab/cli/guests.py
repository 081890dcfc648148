# SPDX-License-Identifier: Apache-2.0
"""``keepstep lab guests``: other libraries' programs, with and without keepstep."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from pathlib import Path

from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError
from keepstep_lab.guests import score, table
from keepstep_lab.guests.faults import FAULTS
from keepstep_lab.guests.guest import Guest, Way
from keepstep_lab.guests.judge import Result
from keepstep_lab.guests.load import loaded


def guests(asked: argparse.Namespace) -> int:
    """Do what was asked. Exit status: 0 all as expected, 1 not, 3 nothing could run here."""
    if asked.guests_ask == "list":
        return _list(asked)
    return _run(asked) if asked.guests_ask == "run" else _score(asked)


def _list(asked: argparse.Namespace) -> int:
    if asked.faults:
        return _list_faults(asked)
    chosen = score.named(asked.names, asked.framework)
    if asked.json:
        print(json.dumps([_described(guest) for guest in chosen], indent=1))
        return 0
    width = shutil.get_terminal_size().columns - 1
    for guest in chosen:
        missing = score.what_is_missing(guest)
        print(f"{guest.name:24} {guest.framework:11} {' '.join(way.value for way in guest.ways)}")
        note = guest.note + (f" [{missing}]" if missing else "")
        print(textwrap.fill(note, width, initial_indent="    ", subsequent_indent="    "))
    print(f"\n{len(chosen)} guests")
    return 0


def _list_faults(asked: argparse.Namespace) -> int:
    if asked.json:
        rows = [
            {"name": f.name, "note": f.note, "causes": list(f.causes), "ranks": list(f.ranks), "restarted": f.restarted}
            for f in FAULTS.values()
        ]
        print(json.dumps(rows, indent=1))
        return 0
    for fault in FAULTS.values():
        then = "restarts it" if fault.restarted else "does not restart it"
        print(f"{fault.name:18} {fault.note}\n{'':18} {fault.causes[0]}; `keepstep run -n` {then}")
    return 0


def _described(guest: Guest) -> dict[str, object]:
    return {
        "name": guest.name,
        "framework": guest.framework,
        "note": guest.note,
        "command": list(guest.command),
        "ways": [way.value for way in guest.ways],
        "faults": list(guest.faults),
        "missing": score.what_is_missing(guest),
    }


def _run(asked: argparse.Namespace) -> int:
    (guest,) = score.named([asked.name])
    ways = _ways(asked.way, guest)
    keep = Path(asked.keep) if asked.keep else None
    told = _teller(asked.json)
    if not asked.json:
        print(f"{guest.name}: {guest.note}", flush=True)
    faults = _faults(asked.fault, guest)
    if faults:
        results = [each for fault in faults for each in score.run_broken(guest, fault, ways, told, keep)]
    else:
        results = score.run_healthy(guest, ways, told, keep)
    return _finish(asked, results)


def _ways(given: list[str] | None, guest: Guest) -> list[Way]:
    chosen = [Way(name) for name in given] if given else list(guest.ways)
    for way in chosen:
        if way not in guest.ways:
            raise UserError(
                f"{guest.name} does not run as `{way.words}`",
                hint=f"it runs as: {', '.join(each.value for each in guest.ways)}",
            )
    return chosen


def _faults(given: list[str] | None, guest: Guest) -> list[str]:
    chosen = [name for each in given or () for name in (guest.faults if each == "all" else (each,))]
    for name in chosen:
        if name not in FAULTS:
            hint = did_you_mean(name, FAULTS, "`keepstep lab guests list --faults` lists them")
            raise UserError(f"no such fault: {name}", hint=hint)
    return chosen


def _score(asked: argparse.Namespace) -> int:
    chosen = score.named(asked.names, asked.framework, asked.quick)
    tasks = []
    for guest in chosen:
        ways = [word for name in asked.way or () if Way(name) in guest.ways for word in ("--way", name)]
        if not asked.broken:
            tasks.append([guest.name, *ways])
        if not asked.healthy and not asked.quick:
            tasks += [[guest.name, "--fault", fault, *ways] for fault in guest.faults]
    with loaded(asked.load):
        results = score.run_many(tasks, jobs=asked.jobs, told=_teller(asked.json))
    if asked.markdown:
        Path(asked.markdown).write_text(table.markdown(results, "Made by `make guests`."))
    return _finish(asked, results)


def _teller(as_json: bool) -> score.Told:
    def told(result: Result) -> None:
        print(table.row(result), file=sys.stderr if as_json else sys.stdout, flush=True)

    return told


def _finish(asked: argparse.Namespace, results: list[Result]) -> int:
    if asked.json:
        print(json.dumps({"schema": score.SCHEMA, "results": [result.to_dict() for result in results]}, indent=1))
    else:
        print(f"\n{table.totals(results)}")
        if getattr(asked, "keep", None):
            print(f"what the runs left behind is in {asked.keep}")
    if all(result.skipped for result in results):
        return 3
    return 1 if any(result.wrong for result in results) else 0
