# SPDX-License-Identifier: Apache-2.0
"""Carry scenarios out, one or many, and count: the work behind ``keepstep lab run`` and ``keepstep lab score``."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import fields
from pathlib import Path

from keepstep.analyze.why import Explained
from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError
from keepstep_lab import hosts, record
from keepstep_lab.judge import Outcome, Status, compare, judge_run
from keepstep_lab.launch import carry_out, prepared
from keepstep_lab.run import NotForRun
from keepstep_lab.scenario import Scenario
from keepstep_lab.scenarios import SCENARIOS

PR_SET_PDEATHSIG = 1


def run_one(
    scenario: Scenario,
    *,
    python: str = sys.executable,
    script: Path | None = None,
    recordings: Path | None = None,
    keep: Path | None = None,
    watch: str = "",
) -> tuple[Outcome, Explained | None]:
    """Carry out one scenario here and judge it.

    ``recordings``: also keep it there as a recording. ``keep``: also copy the raw run folder there.
    """
    absent = what_is_missing(scenario, python)
    if absent:
        return Outcome(
            scenario=scenario.name, framework=scenario.framework, status=Status.SKIPPED, why_not=absent
        ), None
    with prepared(scenario, python, script, watch=watch) as run:
        if watch == "data":
            from keepstep_lab.before import judge_files

            return judge_files(run), None
        try:
            carry_out(run)
        except NotForRun as error:
            return Outcome(
                scenario=scenario.name, framework=scenario.framework, status=Status.SKIPPED, why_not=str(error)
            ), None
        outcome, explained = judge_run(run)
        if recordings is not None and explained is not None:
            record.keep(run, explained, recordings)
        if keep is not None:
            shutil.copytree(run.folder, keep, dirs_exist_ok=True)
        return outcome, explained


def run_many(
    scenarios: Iterable[Scenario],
    *,
    jobs: int,
    python: str,
    recordings: Path | None,
    told: Callable[[Outcome], None],
    watch: str = "",
) -> list[Outcome]:
    """Carry out scenarios side by side, each in a process of its own; ``told`` is called with each as it ends."""
    pool = ThreadPoolExecutor(jobs)
    running: set[subprocess.Popen[str]] = set()
    tasks = [pool.submit(_in_a_process, scenario, python, recordings, running, watch) for scenario in scenarios]
    outcomes = []
    try:
        for task in as_completed(tasks):
            outcomes.append(task.result())
            told(outcomes[-1])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()
        pool.shutdown(wait=True)
    order = list(SCENARIOS)
    return sorted(outcomes, key=lambda outcome: order.index(outcome.scenario))


def _in_a_process(
    scenario: Scenario, python: str, recordings: Path | None, running: set[subprocess.Popen[str]], watch: str
) -> Outcome:
    command = [sys.executable, "-m", "keepstep", "lab", "run", scenario.name, "--json", "--python", python]
    if watch:
        command += ["--with", watch]
    if recordings is not None:
        command += ["--record", str(recordings)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_the_parent
    )
    running.add(process)
    printed, complained = process.communicate()
    running.discard(process)
    try:
        return outcome_from(json.loads(printed))
    except ValueError:
        why = (complained.strip() or "it printed nothing").splitlines()[-1]
        return Outcome(
            scenario=scenario.name,
            framework=scenario.framework,
            status=Status.UNPROVEN,
            why_not=f"the lab failed: {why}",
        )


def end_with_the_parent() -> None:
    """When whoever scores is killed, the scenarios end too (and clean up behind themselves)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def outcome_from(found: dict[str, object]) -> Outcome:
    """An outcome that went through JSON."""
    known = {each.name: found[each.name] for each in fields(Outcome) if each.name in found}
    known |= {"status": Status(found["status"]), "ranks": tuple(found["ranks"]), "false": tuple(found["false"])}  # type: ignore[arg-type]
    return Outcome(**known)  # type: ignore[arg-type]


def replay_all(folder: Path, scenarios: Iterable[Scenario]) -> Iterator[Outcome]:
    """Judge the recordings of these scenarios; one without a recording is reported as skipped."""
    for scenario in scenarios:
        path = folder / scenario.name
        if (path / "recording.json").exists():
            yield compare(scenario, record.replay(path))
        else:
            why = f"no recording in {folder}"
            yield Outcome(scenario=scenario.name, framework=scenario.framework, status=Status.SKIPPED, why_not=why)


def what_is_missing(scenario: Scenario, python: str = sys.executable) -> str | None:
    """Why this scenario cannot be carried out here, or None."""
    if scenario.hosts and (why := hosts.missing()):
        return why
    if "root" in scenario.needs and os.geteuid() != 0:
        return "needs root"
    if "cgroup" in scenario.needs and not os.access("/sys/fs/cgroup/memory", os.W_OK):
        return "needs a writable memory cgroup (v1)"
    if "cuda" in scenario.needs and not Path("/dev/nvidiactl").exists():
        return "needs an NVIDIA GPU"
    module = scenario.framework
    asked = subprocess.run(
        [python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"],
        capture_output=True,
    )
    return None if asked.returncode == 0 else f"needs {module} (`pip install keepstep[{module}]`)"


def named(names: Iterable[str], framework: str | None = None, quick: bool = False) -> list[Scenario]:
    """The scenarios of these names, or all; of one framework; only the quick ones."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in SCENARIOS]
    if unknown:
        hint = did_you_mean(unknown[0], SCENARIOS, "see `keepstep lab list`")
        raise UserError(f"no such scenario: {', '.join(unknown)}", hint=hint)
    chosen = [SCENARIOS[name] for name in wanted] or list(SCENARIOS.values())
    return [s for s in chosen if framework in (None, s.framework) and (s.quick or not quick)]
