# SPDX-License-Identifier: Apache-2.0
"""Python modules that do not fit each other or this CPU: binary interfaces, protobuf, builds of extensions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import SymbolMissing
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature


def _generated(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A module that protobuf's compiler wrote and that raises on import: the runtime is of another version."""
    for line in islice(lines, LINES_TO_AN_ERROR):
        if line.lstrip().startswith("File "):
            return
        if re.match(r"\s*(?:AttributeError|TypeError): ", line):
            yield SymbolMissing(library="protobuf")
            return


LINES_TO_AN_ERROR = 4

BLOCKS = (block(r'File "[^"\n]{1,300}_pb2\.py", line \d+, in <module>', _generated),)

SIGNATURES = (
    # binary interfaces
    signature(
        r"(?P<library>[\w.]+) size changed, may indicate binary incompatibility\. Expected \d+ from C header, got \d+ from PyObject",
        lambda m: None if "Warning" in m.string else SymbolMissing(library=m["library"], symbol=None),
    ),
)
