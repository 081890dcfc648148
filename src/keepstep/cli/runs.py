# SPDX-License-Identifier: Apache-2.0
"""``keepstep runs``: the runs in this folder, how they went, and how much space they take."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from keepstep.base.visible import visible
from keepstep.base.wording import count, duration, shorten, size
from keepstep.cli.print_report import say
from keepstep.errors import Unavailable, UserError
from keepstep.signals.goodput import Bucket, Goodput
from keepstep.store import boxes_in_memory, fallback_folder, host_failures, run_folders


def runs_verb(asked: argparse.Namespace) -> int:
    """List, or prune."""
    root = Path(asked.run_dir) if asked.run_dir else run_folders.DEFAULT
    if asked.dry_run and not asked.prune:
        raise UserError("--dry-run needs --prune", hint="`keepstep runs --prune --dry-run` removes nothing")
    if asked.prune:
        return _prune(asked, root)
    if asked.hosts:
        return _hosts(asked.json)
    listed = fallback_folder.all_runs(root)
    if asked.run:
        return _one(asked, listed)
    status = _tell_unreadable(root)
    if asked.json:
        rows = [
            {"path": str(run.path), **asdict(run.manifest), "state": run.state, "size_bytes": run.size_bytes}
            for run in listed
        ]
        print(json.dumps(rows, indent=1))
        return status
    if not listed:
        if not status:
            print(f"no runs under {root}")
        return status
    name = max(len(run.path.name) for run in listed)
    room = shutil.get_terminal_size((200, 24)).columns
    for run in listed:
        _print_line(run, name, room)
    return status


def _print_line(run: run_folders.Listed, name: int, room: int) -> None:
    line, why = map(visible, _line(run, name))
    if not why or len(line) + len(why) + 2 <= room:
        print(f"{line}  {why}".rstrip())
    else:
        print(f"{line}\n  {shorten(why, max(20, room - 2))}")


def _one(asked: argparse.Namespace, listed: list[run_folders.Listed]) -> int:
    """Where the time of one run went."""
    from keepstep.analyze.goodput import goodput
    from keepstep.signals.goodput import as_document

    path = Path(asked.run) if Path(asked.run).is_dir() else run_folders.find(asked.run, listed)
    if path is None:
        raise UserError(f"no run, or more than one, is called {asked.run}", hint="`keepstep runs` lists them")
    found = goodput(path)
    manifest = run_folders.read_manifest(path)
    known = found.share is not None
    if manifest is None and not known:
        raise UserError(f"{path} is no run folder", hint="`keepstep runs` lists the runs in this folder")
    if asked.json:
        said = asdict(manifest) if manifest is not None else {}
        print(json.dumps({"path": str(path), **said, "time": as_document(found)}, indent=1))
        return 0 if known else 3
    room = shutil.get_terminal_size((200, 24)).columns
    if manifest is not None:
        _print_line(run_folders.Listed(path, manifest), 0, room)
    for line in _table(found, room):
        print(visible(line))
    return 0 if known else 3


def _table(found: Goodput, room: int) -> list[str]:
    """The buckets, the largest first, each with what explains it."""
    whole = found.ranks * found.wall_s
    if found.share is None or whole <= 0:
        return ["where its time went is not known: its ranks had no guard, or were not watched"]
    lines = [f"time of its {count(found.ranks, 'rank')}: {duration(whole)}, of which"]
    rows = [((Bucket.PRODUCTIVE, ""), found.buckets.get(Bucket.PRODUCTIVE, 0.0))]
    rows += sorted(found.lost.items(), key=lambda item: -item[1])
    width = max(len(bucket.words) for (bucket, _), _ in rows)
    for (bucket, why), seconds in rows:
        line = f"  {100 * seconds / whole:5.1f} %  {duration(seconds):>8}  {bucket.words:{width}}"
        if len(line) + len(why) + 2 <= room:
            lines.append(f"{line}  {why}".rstrip())
        else:
            lines += [line.rstrip(), f"{'':21}{shorten(why, max(20, room - 21))}"]
    return lines


def _prune(asked: argparse.Namespace, root: Path) -> int:
    old = run_folders.old_runs(
        root, most_bytes=int(asked.keep_gb * (1 << 30)), most_s=asked.keep_days * 86400.0, least=asked.keep
    )
    kept = {run.path: why for run in old if not asked.dry_run and (why := run_folders.remove(run)) is not None}
    if not asked.dry_run:
        boxes_in_memory.sweep()
    gone = [run.path for run in old if run.path not in kept]
    did = "would remove" if asked.dry_run else "removed"
    print(f"{did} {count(len(gone), 'run')}" + "".join(f"\n  {visible(str(path))}" for path in gone))
    for path, why in kept.items():
        say(f"keepstep: cannot remove {path}: {why}")
    return Unavailable.exit_status if kept else _tell_unreadable(root)


def _tell_unreadable(root: Path) -> int:
    """Say what is not listed. Returns the exit status."""
    left_out = run_folders.unreadable(root)
    for path, why in left_out:
        say(f"keepstep: cannot read {path}: {why}")
    return Unavailable.exit_status if left_out else 0


def _hosts(as_json: bool) -> int:
    """The hosts of runs on several nodes, the ones with most failures first."""
    found = sorted(host_failures.remembered(), key=lambda each: (-each.failures, each.host))
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return 0
    if not found:
        print("no run on several nodes has been led from this account")
        return 0
    width = max(len(visible(each.host)) for each in found)
    for each in found:
        failures = f"{count(each.failures, 'failure')} of its own" if each.failures else "no failure of its own"
        line = f"{visible(each.host):{width}}  {count(each.runs, 'run'):8}  {failures}"
        if each.last_failure_at is not None and each.last_cause is not None:
            ago = duration(max(time.time() - each.last_failure_at, 0.0))
            line += f"; the last {ago} ago: {visible(each.last_cause)}"
        print(line)
    return 0


def _line(run: run_folders.Listed, name: int) -> tuple[str, str]:
    """How it went, and why."""
    said = run.manifest
    took = duration((said.ended or time.time()) - said.began) if run.state != "killed" else "?"
    status = f" {said.status}" if said.status else ""
    attempts = f", {count(len(said.attempts), 'attempt')}" if len(said.attempts) > 1 else ""
    good = f"{100 * said.goodput:.0f} %" if said.goodput is not None else ""
    line = f"{run.path.name:{name}}  {run.state + status:12} {count(said.ranks, 'rank'):8} {took:>8} {good:>5}"
    return f"{line}  {size(run.size_bytes)}{attempts}", _why(run)


def _why(run: run_folders.Listed) -> str:
    """Why the run ended; if it was restarted, why each attempt ended."""
    said = run.manifest.attempts
    if len(said) < 2:
        return said[-1].title or "" if said and run.state in ("failed", "killed", "stopped") else ""
    *before, last = said
    told = [f"attempt {each.number} ended: {each.title or f'status {each.status}'}; restarted" for each in before]
    if last.status == 0:
        return "; ".join([*told, f"attempt {last.number} finished"])
    return "; ".join(
        [*told, f"attempt {last.number} ended: {last.title or run.state}"] if run.state != "running" else told
    )
