# SPDX-License-Identifier: Apache-2.0
"""Which engine a run on several nodes uses: the one that the command line names, else the one that it runs under."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keepstep.cluster.kubernetes import node_of
from keepstep.errors import UserError
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.slurm_step import is_batch, is_step, not_by_srun

if TYPE_CHECKING:
    from keepstep.supervise.nodes.node_settings import Station

FOR_USERS = ("kubernetes", "meet", "ray", "slurm", "ssh")
ENGINES = (*FOR_USERS, "pipe", "ray_agent", "ray_lead")
"""The last three are what ssh and Ray start on each node, and what Ray starts to lead."""


def station_of(wanted: Wanted, env: Mapping[str, str]) -> Station | None:
    """What this process is in a run on several nodes; None if this machine is all there is. Raises `UserError`."""
    name = engine_of(wanted, env)
    if name is None:
        return None
    module = importlib.import_module(f"keepstep.supervise.engines.{name}")
    station: Station = module.station(wanted, env)
    return station


def engine_of(wanted: Wanted, env: Mapping[str, str]) -> str | None:
    """The engine's name."""
    if wanted.on is not None:
        if wanted.on not in ENGINES:
            raise UserError(f"--on {wanted.on} is not known", hint=f"known: {', '.join(FOR_USERS)}")
        return wanted.on
    if wanted.hosts is not None:
        return "ssh"
    if wanted.meet is not None and wanted.node_rank is not None:
        return "meet"
    if wanted.any and node_of(env) is not None:
        return "kubernetes"
    if wanted.meet is not None or wanted.node_rank is not None:
        return "meet"
    if is_step(env):
        return "slurm"
    if wanted.any:
        if is_batch(env):
            raise not_by_srun(wanted)
        raise UserError(
            "which nodes?",
            hint="give --hosts A,B,C or --on ray, or on each node --nodes N --node-rank I --meet HOST:PORT",
        )
    return None
