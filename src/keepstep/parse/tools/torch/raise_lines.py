# SPDX-License-Identifier: Apache-2.0
"""Source lines of PyTorch that a traceback shows last, where the log ends before the error message itself.

Reports often stop there. Only lines that can fail in just one way are here. The message is then that of the source,
with `{}` for the values, and cut where the literal continues on the next line.
"""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # torch/distributed
    signature(
        r"raise RuntimeError\(\"Distributed package doesn't have (?P<what>\w+) ?\" *\"?(?:built in|$)",
        lambda m: UnsupportedCombination(what=f"the {m['what']} backend, which this build of PyTorch does not have"),
    ),
)
