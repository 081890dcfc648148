# SPDX-License-Identifier: Apache-2.0
"""``keepstep shrink``: make the program smaller, write the folder, say what is in it."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

from keepstep.analyze.question import run_or_path
from keepstep.base.safe_files import share_whole
from keepstep.base.visible import visible
from keepstep.base.wording import count, duration, shorten
from keepstep.cli.print_report import say
from keepstep.errors import Unavailable, UserError
from keepstep.shrink.chance import FLOOR
from keepstep.shrink.job_command import job_command
from keepstep.shrink.result import ALONE, Result, without_private, write_result
from keepstep.shrink.search import STATE, Search
from keepstep.shrink.shrink import Shrunk, shrink
from keepstep.shrink.trials import Trials
from keepstep.store.run_folders import read_manifest

WIDTH = 80


def shrink_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    command, cwd = _command(asked.command)
    here = Path.cwd()
    os.chdir(cwd)
    launch = job_command(command)
    out = here / (asked.out or f"shrunk-{Path(launch.script).stem}")
    try:
        keep = tuple(re.compile(each) for each in asked.keep)
    except re.error as error:
        raise UserError(f"--keep is no regular expression: {error}") from error
    works = _text_of(here / asked.works) if asked.works else ""
    folders = tuple(dict.fromkeys(os.path.realpath(each) for each in (cwd, launch.root)))
    env = {**os.environ, **dict(launch.variables)}
    trials = Trials(str(cwd), folders, env)
    search = Search(trials, launch, env, _seconds(asked.budget), keep, _show, out / STATE)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        shrunk = shrink(search, folders)
    except Unavailable as error:
        if (out / "issue.md").exists():
            error.hint = f"what an earlier search made is in {os.path.relpath(out, here)}"
        raise
    finally:
        trials.close()
        _clear()
    _show("running the result once more in an empty folder")
    result = write_result(shrunk, out, env, works)
    said = _as_json(shrunk, result)
    share_whole(out / "shrunk.json", (json.dumps(said, indent=1) + "\n").encode())
    if shrunk.complete:
        (out / STATE).unlink(missing_ok=True)  # it names the user's folders, and nobody goes on from here
    os.chdir(here)
    _clear()
    print(json.dumps({"folder": str(out), **said}, indent=1)) if asked.json else _tell(shrunk, result)
    return 0 if result.same else 1


def _command(words: list[str]) -> tuple[list[str], Path]:
    """The command, and where it runs: as given, or as a run's manifest says."""
    if words[:1] == ["--"] or not words:
        return words[1:], Path.cwd()
    manifest = read_manifest(run_or_path(words[0])) if len(words) == 1 else None
    if manifest is None:
        raise UserError(f"no such run: {words[0]}", hint="give a run of `keepstep run`, or a command after --")
    given = manifest.roles in (["launcher"], ["command"])
    return [*(["keepstep", "run", "-n", str(manifest.ranks), "--"] if not given else []), *manifest.command], Path(
        manifest.cwd
    )


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--works {path.name} cannot be read: {error}") from error


def _show(line: str) -> None:
    """The progress: one line that changes, or a line each where nobody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{visible(shorten(line, WIDTH - 1))}", end="", file=sys.stderr, flush=True)
    else:
        say(shorten(line, WIDTH))


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def _tell(shrunk: Shrunk, result: Result) -> None:
    for line in textwrap.wrap(visible(f"{result.title} [{shrunk.failure.cause}]"), WIDTH):
        print(line)
    ranks = (
        f", {shrunk.edits.ranks} of {count(shrunk.launch.ranks, 'rank')}"
        if shrunk.launch.ranks and shrunk.edits.ranks
        else ""
    )
    print(f"  {result.lines} of {count(result.lines_before, 'line')}{ranks}")
    if shrunk.needs is not None and shrunk.needs > 1:
        print(f"  needs {shrunk.needs} ranks: with {shrunk.needs - 1} it does not fail in this way")
    if shrunk.on_cpu is not None:
        print(f"  {'fails without an accelerator too' if shrunk.on_cpu else 'on the CPU it does not fail in this way'}")
    left, of = shrunk.records
    if of:
        print(f"  {left} of {count(of, 'line')} of data that it reads; look at them before you send them")
    if shrunk.alone:
        print(f"  {ALONE} fails in this way too: its collectives alone, without model and data")
    again = "" if shrunk.complete else "; stopped early, the same command goes on"
    print(f"  {count(shrunk.trials, 'trial')} in {duration(shrunk.took_s)}{again}")
    if shrunk.rate is not None:
        rate, failed, runs = shrunk.rate
        print(f"  failed in {failed} of {count(runs, 'run')}; the original in {rate:.0%}; floor {FLOOR * rate:.0%}")
    for title, times in sorted(shrunk.also.items(), key=lambda each: -each[1])[:5]:
        print(visible("  " + shorten(f"also found ({count(times, 'time')}): {title}", WIDTH - 2)))
    if result.others:
        print(f"  {count(len(result.others), 'package')} differ from where it works; {visible(result.others[0])}")
    print(f"  in an empty folder, {result.proof}")
    print(visible(f"\n  cd {os.path.relpath(result.folder)}\n  {result.run}\n"))
    print(
        visible(f"{os.path.relpath(result.folder / 'issue.md')} is the text of an issue. Read it before you send it.")
    )


def _as_json(shrunk: Shrunk, result: Result) -> dict[str, object]:
    return {
        "schema": "keepstep.shrink/1",
        "cause": shrunk.failure.cause,
        "title": result.title,
        "hung": shrunk.failure.verdict == "hung",
        "files": sorted(result.files),
        "run": result.run,
        "arguments": list(shrunk.edits.words),
        "lines": result.lines,
        "lines_before": result.lines_before,
        "lines_executed": shrunk.executed,
        "records": list(shrunk.records),
        "ranks": shrunk.edits.ranks,
        "ranks_before": shrunk.launch.ranks,
        "needs": shrunk.needs,
        "variables": {name: without_private(value) for name, value in sorted(shrunk.variables.items())},
        "fails_on_cpu": shrunk.on_cpu,
        "collectives_alone": shrunk.alone is not None,
        "trials": shrunk.trials,
        "refused": shrunk.refused,
        "seconds": round(shrunk.took_s, 1),
        "also_found": {without_private(title): times for title, times in shrunk.also.items()},
        "other_packages": result.others,
        "complete": shrunk.complete,
        "same_in_empty_folder": result.same,
    }


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip().lower())
    if found is None:
        raise UserError(f"--budget is not a time: {text}", hint="give a time such as 90s, 20m or 2h")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2] or "s"]
