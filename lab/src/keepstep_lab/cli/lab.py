# SPDX-License-Identifier: Apache-2.0
"""``keepstep lab``: list, run and score real faults."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from keepstep.analyze.why import Explained
from keepstep.base.redact import redacted
from keepstep.cli.print_report import print_report
from keepstep.errors import UserError
from keepstep_lab import before, faults, guarded, score, supervised, table
from keepstep_lab.judge import Outcome, Status
from keepstep_lab.scenario import Scenario

WATCHED = {"data": before.before, "guard": guarded.guarded, "run": supervised.supervised}
RIGHT_ENOUGH = (Status.RIGHT, Status.LATER)


def lab(asked: argparse.Namespace) -> int:
    """Do what was asked. Exit status: 0 all as expected, 1 not, 3 nothing could run here."""
    if asked.ask == "list":
        return _list(asked)
    if asked.ask == "run":
        return _run(asked)
    if asked.ask == "take":
        from keepstep_lab.cli.take import take

        return take(asked)
    if asked.ask == "guests":
        from keepstep_lab.cli.guests import guests

        return guests(asked)
    if asked.ask == "nodes":
        from keepstep_lab.cli.nodes import nodes

        return nodes(asked)
    return _score(asked)


def _list(asked: argparse.Namespace) -> int:
    chosen = score.named(asked.names, asked.framework)
    if asked.json:
        print(json.dumps([_described(scenario) for scenario in chosen], indent=1))
        return 0
    for scenario in chosen:
        said = scenario.cause or "healthy"
        later = f" (needs `{scenario.later}`, still to come)" if scenario.later else ""
        missing = score.what_is_missing(scenario) if scenario.hosts or scenario.needs else None
        print(f"{scenario.name:32} {scenario.ranks} ranks  {said}{later}")
        note = scenario.note + (f" [cannot run here: {missing}]" if missing else "")
        print(
            textwrap.fill(note, shutil.get_terminal_size().columns - 1, initial_indent="    ", subsequent_indent="    ")
        )
    struck = {s.fault for s in chosen if s.fault and not s.healthy}
    healthy = sum(s.healthy for s in chosen)
    print(f"\n{len(chosen) - healthy} failing scenarios over {len(struck)} faults, {healthy} healthy ones")
    return 0


def _described(scenario: Scenario) -> dict[str, object]:
    keys = (
        "name",
        "framework",
        "job",
        "fault",
        "ranks",
        "hosts",
        "launcher",
        "cause",
        "later",
        "hang",
        "needs",
        "quick",
        "note",
    )
    found = {key: getattr(scenario, key) for key in keys}
    return {
        **found,
        "also_accept": list(scenario.also_accept),
        "root_ranks": scenario.root_ranks,
        "healthy": scenario.healthy,
    }


def _run(asked: argparse.Namespace) -> int:
    (scenario,) = score.named([asked.name])
    if asked.watch:
        scenario = _as_watched(scenario, asked.watch)
    script = Path(asked.script) if asked.script else None
    if script and _strikes_inside(scenario):
        raise UserError(
            f"{scenario.name} breaks its own job from inside and cannot break {script}",
            hint="choose a scenario whose fault acts from outside, such as a signal, the network or a limit",
        )
    if script and not script.is_file():
        raise UserError(f"no such script: {script}")
    if asked.mark:
        scenario = replace(scenario, mark=asked.mark)
    if not asked.json:
        _say(f"{scenario.name}: {scenario.note}")
        _say(
            f"starting {scenario.ranks} ranks of {scenario.job} ({scenario.framework}); at most {scenario.limit:.0f} s"
        )
    outcome, explained = score.run_one(
        scenario,
        python=_python(asked.python),
        script=script,
        recordings=Path(asked.record) if asked.record else None,
        keep=Path(asked.keep) if asked.keep else None,
        watch=asked.watch,
    )
    if asked.json:
        print(json.dumps(outcome.to_dict(), indent=1))
    else:
        _tell(outcome, explained)
        if asked.keep:
            _say(f"what the run left behind is in {asked.keep}")
    if outcome.status in (Status.SKIPPED, Status.UNPROVEN):
        return 3
    return 0 if outcome.status in RIGHT_ENOUGH else 1


def _as_watched(scenario: Scenario, watch: str) -> Scenario:
    found = WATCHED[watch](scenario)
    if found is None:
        raise UserError(f"{scenario.name} cannot be judged with --with {watch}", hint="run it without --with")
    return found


def _strikes_inside(scenario: Scenario) -> bool:
    if scenario.fault is None:
        return False
    return bool(faults.hooks(faults.load(scenario.fault)) - {"prepare", "outside", "proof"})


def _python(given: str) -> str:
    """The full path of the Python that trains. In a virtual environment it is a link that must not be followed."""
    found = shutil.which(given)
    if found is None:
        raise UserError(f"no such Python: {given}")
    return os.path.abspath(found)


def _tell(outcome: Outcome, explained: Explained | None) -> None:
    if outcome.status in (Status.SKIPPED, Status.UNPROVEN):
        _say(f"not judged: {outcome.why_not}")
        return
    if outcome.proof:
        _say(f"proof: {outcome.proof}")
    if explained is not None:
        print()
        print_report(redacted(explained.report), as_json=False)
        print()
    _say(table.row(outcome))


def _score(asked: argparse.Namespace) -> int:
    chosen = score.named(asked.names, asked.framework, asked.quick)
    if asked.watch:
        chosen = [_as_watched(s, asked.watch) for s in chosen if asked.names or WATCHED[asked.watch](s) is not None]
    quiet = asked.json

    def told(outcome: Outcome) -> None:
        print(table.row(outcome), file=sys.stderr if quiet else sys.stdout, flush=True)

    if asked.replay:
        outcomes = list(score.replay_all(Path(asked.replay), chosen))
        for outcome in outcomes:
            told(outcome)
    else:
        recordings = Path(asked.record) if asked.record else None
        outcomes = score.run_many(
            chosen, jobs=asked.jobs, python=_python(asked.python), recordings=recordings, told=told, watch=asked.watch
        )
    if asked.json:
        print(
            json.dumps({"schema": "keepstep.lab/1", "outcomes": [outcome.to_dict() for outcome in outcomes]}, indent=1)
        )
    else:
        print(f"\n{table.totals(outcomes)}")
    if asked.markdown:
        Path(asked.markdown).write_text(
            table.markdown(outcomes, f"keepstep lab score{f' --with {asked.watch}' if asked.watch else ''}")
        )
    if all(outcome.status is Status.SKIPPED for outcome in outcomes):
        return 3
    return 1 if any(outcome.status in (Status.WRONG, Status.UNPROVEN) for outcome in outcomes) else 0


def _say(text: str) -> None:
    print(f"lab: {text}", flush=True)
