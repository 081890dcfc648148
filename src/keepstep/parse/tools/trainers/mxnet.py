# SPDX-License-Identifier: Apache-2.0
"""MXNet: the checks of its operators, stores and record files."""

from __future__ import annotations

from keepstep.model.facts.data import CorruptData, DtypeMismatch, ShapeMismatch
from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Incompatible attr in node (?P<op>\S{0,60}) ?at \d+-th (?:in|out)put: expected (?P<left>[\[(][^\])\n]{0,60}[\])]), got "
        r"(?P<right>[\[(][^\])\n]{0,60}[\])])",
        ShapeMismatch,
    ),
    signature(
        r"Incompatible attr in node \S{0,60} ?at \d+-th (?:in|out)put: expected (?P<left>\w+), got (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"(?:Error in operator (?P<op>\w+): )?Shape inconsistent, Provided ?= ?(?P<left>[\[(][^\])\n]{0,60}[\])]), inferred shape ?= ?"
        r"(?P<right>[\[(][^\])\n]{0,60}[\])])",
        ShapeMismatch,
    ),
    signature(
        r"Check failed: [^\n]{0,80}Invalid NDArray file format", CheckpointUnreadable, why="not a file of parameters"
    ),
    signature(r"(?P<what>Invalid Record ?(?:IO|File)[^\n]{0,60}|RecordIO[^\n]{0,40}magic[^\n]{0,40})", CorruptData),
)
