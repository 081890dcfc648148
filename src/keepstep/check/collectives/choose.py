# SPDX-License-Identifier: Apache-2.0
"""Whose collectives are tried: what the user says, what the launcher's variables are for, or what is installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from keepstep.base.launchers import JAX, TF_CONFIG, TORCHRUN
from keepstep.check.collectives.plan import Plan
from keepstep.errors import UserError

FRAMEWORKS = ("torch", "tensorflow", "jax")


def plan_for(framework: str | None, env: Mapping[str, str] = os.environ, **asked: Any) -> Plan:
    """The plan, or why there is none."""
    installed = [each for each in FRAMEWORKS if importlib.util.find_spec(each) is not None]
    chosen = framework or _by_variables(env) or (installed[0] if len(installed) == 1 else None)
    if chosen is None:
        several = f"{', '.join(installed)} are installed here" if installed else "none is installed here"
        raise UserError(f"whose collectives? {several}", hint="say it: --framework torch, tensorflow or jax")
    if chosen not in installed:
        raise UserError(f"{chosen} is not installed here", hint="run keepstep with the Python that trains")
    return Plan(framework=chosen, **asked)


def _by_variables(env: Mapping[str, str]) -> str | None:
    for name, framework in ((TF_CONFIG.name, "tensorflow"), (JAX.meeting[0], "jax"), (TORCHRUN.meeting[0], "torch")):
        if name in env:
            return framework
    return None
