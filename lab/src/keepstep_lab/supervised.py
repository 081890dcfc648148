# SPDX-License-Identifier: Apache-2.0
"""Scenarios under `keepstep run`: the supervisor starts the ranks, sees the fault, and its own report is judged."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keepstep.analyze.why import Explained, explain_paths
from keepstep.base.launchers import JAX_SCRIPTS, TF_CONFIG, TORCHRUN
from keepstep.store import run_folders
from keepstep_lab.run import NotForRun, Run, Unproven
from keepstep_lab.scenario import Scenario

OF_A_RANK = (
    *(name for each in (TF_CONFIG, TORCHRUN, JAX_SCRIPTS) for name in (*each.of_one_rank, *each.size)),
    "KEEPSTEP_LAB_TASK",
)
"""What the supervisor gives each rank itself."""
FAMILIES = (
    "user",
    "framework",
    "sync",
    "resource",
    "data",
    "preemption",
    "checkpoint",
    "slow",
    "network",
    "worker",
    "env",
    "numeric",
)
NOT_UNDER_RUN = {
    "torch_port_taken",
    "tf_port_taken",
    "jax_port_taken",
    "jax_port_taken_exception",
    "jax_healthy_sigterm",
}
"""What cannot be there: the supervisor takes free ports, and is ended by a SIGTERM to it."""
STARTS_RANKS_AGAIN = {"restart_rank", "second_life", "old_process"}
"""Faults that are the restart itself, by somebody else. Under `keepstep run` only the supervisor starts ranks."""
LONG_PAUSE_S = 20.0
"""How long a healthy pause is watched: several times what a hang takes to be noticed, and less than the jobs' own
limits."""
LIMITS = {
    "RLIMIT_AS": "as",
    "RLIMIT_NOFILE": "nofile",
    "RLIMIT_NPROC": "nproc",
    "RLIMIT_FSIZE": "fsize",
    "RLIMIT_STACK": "stack",
}


def supervised(scenario: Scenario) -> Scenario | None:
    """The scenario as `keepstep run` is judged on it; None where it is not one for a single machine."""
    family = (scenario.cause or "").partition(".")[0]
    if scenario.hosts or scenario.launcher not in ("plain", "shell") or scenario.name in NOT_UNDER_RUN:
        return None
    if not scenario.healthy and family not in FAMILIES:
        return None
    ranks = scenario.inside_ranks or scenario.root_ranks
    return replace(scenario, root_ranks=ranks, later=None if scenario.later == "run" else scenario.later, clocks=())


def command(run: Run) -> list[str]:
    """How the job is started. Raises :class:`NotForRun` where the fault needs ranks that are started differently."""
    if any(
        env.get(name) != given.get(name) for env, given in zip(run.env, run.given, strict=True) for name in OF_A_RANK
    ):
        raise NotForRun("the fault is in a variable that `keepstep run` sets itself")
    shared = [{k: v for k, v in env.items() if k not in OF_A_RANK} for env in run.env]
    if any(env != shared[0] for env in shared) or any(args != run.args[0] for args in run.args):
        raise NotForRun("the fault gives ranks different variables or arguments; `keepstep run` gives all the same")
    if run.absent or run.delay or any(run.prefix) or run.order != sorted(run.order):
        raise NotForRun("the fault starts ranks late, elsewhere or not at all; `keepstep run` starts them all here")
    if run.scenario.fault in STARTS_RANKS_AGAIN:
        raise NotForRun("the fault starts ranks again itself; under `keepstep run` only the supervisor does")
    roles = run.scenario.roles
    how = ["-n", str(sum(role in ("chief", "worker") for role in roles) or run.scenario.ranks)]
    if "ps" in roles:
        how += ["--ps", str(roles.count("ps"))]
    elif "chief" in roles:
        how += ["--chief"]
    limits = [f"--{LIMITS[name]}={value}" for name, value in run.scenario.limits.items()]
    words = [*(["prlimit", *limits] if limits else []), run.python, str(run.app / "train.py"), *run.args[0]]
    own = [
        sys.executable,
        "-m",
        "keepstep",
        "run",
        *how,
        "--no-check",
        "--max-attempts",
        "1",
        "--run-dir",
        str(run.folder / "runs"),
    ]
    return [*own, "--", *words]


def environment(run: Run) -> dict[str, str]:
    """The variables of the supervisor."""
    return {name: value for name, value in run.env[0].items() if name not in OF_A_RANK}


def folder_of(run: Run) -> Path:
    """The run folder that the supervisor made."""
    found = sorted((run.folder / "runs").glob("*/manifest.json"))
    if not found:
        raise Unproven("keepstep run made no run folder")
    return found[-1].parent


def explain(run: Run) -> tuple[Explained, float | None]:
    """What `keepstep why RUN` says, and when the supervisor had said it."""
    attempt = run_folders.attempt_to_explain(folder_of(run))
    explained = explain_paths([attempt], kernel_log=True, own_links=True)
    told, root = told_at(run), explained.report.root
    named = named_at(attempt, root.ranks) if root is not None else None
    return explained, min((at for at in (told, named) if at is not None), default=None)


def told_at(run: Run) -> float | None:
    """When the supervisor first said what is wrong; None: it has not."""
    with contextlib.suppress(Unproven, OSError, ValueError, KeyError, IndexError):
        told = json.loads((folder_of(run) / run_folders.MANIFEST).read_text())["attempts"][0]["told"]
        return float(told) if told is not None else None
    return None


def named_at(attempt: Path, ranks: Sequence[int]) -> float | None:
    """When the supervisor named these ranks, and no other, as those that the rest wait for; None: it first named
    others, or none."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
        first = next((each for each in events if each["what"] == "named"), None)
        return float(first["at"]) if first is not None and sorted(first["ranks"]) == sorted(ranks) else None
    return None


def spoke(run: Run) -> str | None:
    """The first line in which the supervisor said that something is wrong."""
    lines = (run.folder / "terminal.log").read_text(errors="replace").splitlines()
    return next((line for line in lines if line.startswith(("keepstep: no progress for", "keepstep: decision:"))), None)


def status_of(run: Run, rank: int) -> int | None:
    """The exit status of a rank, as the supervisor wrote it down; negative: the signal."""
    import signal

    for path in sorted((run.folder / "runs").glob("*/attempt-0/exits.jsonl")):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            if found["fact"] == "ProcessExited" and found.get("rank", {}).get("index") == rank:
                name = found["fields"].get("signal")
                return -signal.Signals[name].value if name else found["fields"].get("code")
    return None
