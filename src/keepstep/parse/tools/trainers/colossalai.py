# SPDX-License-Identifier: Apache-2.0
"""Colossal-AI: its launcher, parallel sizes and checkpoints."""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Error: [^\n]{0,80}(?P<what>zero stage must be 0 or 1 when using pipeline parallelism"
        r"|[Ss]equence parallelism mode \S{1,40} (?:can only be used when|must be enabled when using) \w{2,40}( parallelism)?)",
        lambda m: UnsupportedCombination(what=m["what"]),
    ),
)
