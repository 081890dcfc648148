# SPDX-License-Identifier: Apache-2.0
"""What XLA's runtime says about a replica that failed, where JAX's exception is not in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ExceptionRaised
from keepstep.parse.scan.block import block

_RAISED = lazy_pattern(r"^\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")


def _read(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    if not any(_RAISED.match(line) for line in lines):
        yield ExceptionRaised(type="XlaRuntimeError", message=f"{match['code'].upper()}: {match['message']}")


BLOCKS = (
    block(
        r"Execution of replica \d+ failed: (?P<code>INVALID_ARGUMENT|Invalid argument|FAILED_PRECONDITION|Failed precondition"
        r"|UNIMPLEMENTED|Unimplemented|NOT_FOUND|Not found): (?P<message>\S.{0,400})",
        _read,
        inside_others=False,
    ),
)
