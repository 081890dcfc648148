# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases: a service that could not be reached when the run started."""

from __future__ import annotations

from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"CommError: (?:Run initialization has timed out after|Error communicating with wandb process|It appears that you do not have)",
        ConnectFailed,
        why=Why.TIMED_OUT,
        peer="api.wandb.ai",
    ),
    signature(
        r"wandb: Network error \(\w+\), entering retry loop",
        ConnectFailed,
        why=Why.FAILED,
        peer="api.wandb.ai",
        final=False,
    ),
)
