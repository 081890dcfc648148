# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG of one worker is not JSON: a comma is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    env = run.env[run.scenario.struck]
    env["TF_CONFIG"] = env["TF_CONFIG"].replace(", ", " ")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    try:
        json.loads(run.env[run.scenario.struck]["TF_CONFIG"])
    except ValueError as error:
        return f"TF_CONFIG of rank {run.scenario.struck} is not JSON: {error}"
    raise Unproven("TF_CONFIG is sound")
