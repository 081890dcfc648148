# SPDX-License-Identifier: Apache-2.0
"""``keepstep run``: start the ranks, watch them, say why they failed, and restart them when that can help."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base.safe_files import open_regular
from keepstep.errors import UserError
from keepstep.supervise.decide.remedy import RemedyMode
from keepstep.supervise.engines.choose import station_of
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.lead.placement import Roles
from keepstep.supervise.options import RunOptions
from keepstep.supervise.start.launch import Job, plan

MOST_FORECAST = 1 << 20

if TYPE_CHECKING:
    from keepstep.extend.run_settings import RunSettings
    from keepstep.model.evidence import Evidence
    from keepstep.model.facts.base import Fact
    from keepstep.supervise.nodes.node_settings import Station


def run_verb(asked: argparse.Namespace) -> int:
    """Run, and return the job's own status."""
    if asked.test_notice:
        return _test_notice(asked)
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    for name, value, least in (
        ("--max-attempts", asked.max_attempts, 1),
        ("--hang-timeout", asked.hang_timeout, 0),
        ("--grace", asked.grace, 0),
        ("--wait-for-more", asked.wait_for_more, 0),
    ):
        if value is not None and value < least:
            raise UserError(f"{name} must be at least {least}, not {value:g}")
    wanted = _wanted(asked, command)
    if asked.detach:
        return _detached(wanted)
    station = station_of(wanted, os.environ) if asked.ranks is None or not wanted.any else None
    if asked.ranks is not None and (station is not None or wanted.any):
        raise UserError("-n is for one machine", hint="with several nodes, give --per-node M: M ranks on each")
    if station is None:
        from keepstep.supervise.run import Supervisor

        job = plan(command, ranks=asked.ranks, chief=asked.chief, ps=asked.ps, evaluator=asked.evaluator)
        return Supervisor(_asked(asked, job)).run()
    job = replace(_plan(asked, command, station), nodes=station.most)
    from keepstep.supervise.nodes.run_on_nodes import run_on_nodes

    return run_on_nodes(station, _asked(asked, job), os.environ)


def _settings(asked: argparse.Namespace) -> RunSettings:
    from keepstep.extend.run_settings import read_run_settings
    from keepstep.store.history.readings import READINGS

    return read_run_settings(Path(asked.config) if asked.config else None, Path.cwd(), READINGS)


def _test_notice(asked: argparse.Namespace) -> int:
    from keepstep.cli.print_report import say
    from keepstep.supervise.show.notices import sent

    settings = _settings(asked)
    for problem in settings.problems:
        say(f"keepstep: {problem}")
    if not settings.notices.any:
        raise UserError(
            "no notices are configured",
            hint='name a file with --config: [notices] with webhook = "https://...", slack or command',
        )
    lines = sent(settings.notices, "test", "this is a test of keepstep's notices", None, ("webhook", "command"))
    for line in lines:
        print(line)
    well = all(" answered 2" in line or line.endswith("status 0") or "status 0 (" in line for line in lines)
    return 0 if well else 1


def _detached(wanted: Wanted) -> int:
    if wanted.on != "ray":
        raise UserError("--detach is for --on ray", hint="give --on ray, or leave --detach out")
    from keepstep.supervise.engines.ray_lead import follow, rest_of

    return follow(rest_of(sys.argv[1:]), os.environ)


def _plan(asked: argparse.Namespace, command: list[str], station: Station) -> Job:
    """All ranks, of all nodes. The leader says to each agent which of them are its own."""
    if station.per_node is None:
        if asked.chief or asked.ps or asked.evaluator:
            raise UserError("roles need ranks", hint="give --per-node M: M training ranks on each node")
        return plan(command, ranks=None)
    ranks = station.per_node * station.most
    return plan(command, ranks=ranks, chief=asked.chief, ps=asked.ps, evaluator=asked.evaluator)


def _wanted(asked: argparse.Namespace, command: list[str]) -> Wanted:
    if asked.per_node is not None and asked.per_node < 1:
        raise UserError(f"--per-node must be at least 1, not {asked.per_node}")
    if asked.spare_nodes is not None and asked.spare_nodes < 0:
        raise UserError(f"--spare-nodes must be at least 0, not {asked.spare_nodes}")
    return Wanted(
        nodes=asked.nodes,
        spare_nodes=asked.spare_nodes,
        node_rank=asked.node_rank,
        meet=asked.meet,
        hosts=asked.hosts,
        on=asked.on,
        per_node=asked.per_node,
        wait_s=asked.wait,
        more_s=asked.wait_for_more,
        roles=Roles(chief=asked.chief, ps=asked.ps, evaluator=asked.evaluator),
        remote=asked.remote,
        resources=asked.resources,
        again=_again(asked, command),
        command=tuple(command),
        status_file=asked.status_file,
        requeue=asked.requeue,
    )


def _again(asked: argparse.Namespace, command: list[str]) -> tuple[str, ...]:
    """The command line of an agent that does the same on another host."""
    words = ["--grace", f"{asked.grace:g}"]
    for name, value in (("--per-node", asked.per_node), ("--hang-timeout", asked.hang_timeout)):
        words += [name, f"{value:g}"] if value is not None else []
    words += ["--no-spares"] if asked.no_spares else []
    words += ["--quiet"] if asked.quiet else []
    return (*words, "--", *command)


def _asked(asked: argparse.Namespace, job: Job) -> RunOptions:
    return RunOptions(
        job=job,
        name=asked.name,
        run_dir=Path(asked.run_dir) if asked.run_dir else None,
        status_file=Path(asked.status_file) if asked.status_file else None,
        check=not asked.no_check,
        max_attempts=asked.max_attempts,
        remedy=RemedyMode(asked.remedy),
        on_failure=asked.on_failure,
        spares=not asked.no_spares,
        hang_timeout_s=asked.hang_timeout,
        suspected_wait_s=asked.suspected_wait,
        max_lost_work_s=_seconds(asked.max_lost_work),
        grace_s=asked.grace,
        quiet=asked.quiet,
        metrics=asked.metrics,
        forecasts=_forecasts(asked.memory_forecast) if asked.memory_forecast else (),
        settings=_settings(asked),
    )


def _forecasts(path: str) -> tuple[Evidence[Fact], ...]:
    """What `keepstep check memory --save` wrote."""
    from keepstep.base import foreign_json
    from keepstep.model.codec import from_dict
    from keepstep.model.facts.resource import DeviceMemoryForecast, HostMemoryForecast

    try:
        with open_regular(Path(path)) as stream:
            lines = stream.read(MOST_FORECAST).decode(errors="replace").splitlines()
        found = [from_dict(foreign_json.loads(line)) for line in lines]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except ValueError:
        found = []
    kept = tuple(each for each in found if isinstance(each.fact, DeviceMemoryForecast | HostMemoryForecast))
    if not kept:
        raise UserError(f"{path} holds no forecast", hint="write one with keepstep check memory --save FILE.jsonl ...")
    return kept


def _seconds(text: str) -> float | None:
    """``90s``, ``10m``, ``2h``, or a number of seconds; None for ``off``."""
    if text.strip().lower() == "off":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip().lower())
    if found is None:
        raise UserError(f"--max-lost-work is not a time: {text}", hint="give a time such as 90s, 10m or 2h, or off")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2] or "s"]
