# SPDX-License-Identifier: Apache-2.0
"""XLA and the device compilers below it: limits of a program, and threads that wait for others.

Messages of XLA:TPU, XLA:GPU (ptxas) and Neuron that reject a program for its size or shape,
and of XLA's own rendezvous, which reports that not all participants of a collective came.
"""

from __future__ import annotations

import re

from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.signature import signature


def _timed_out(match: re.Match[str]) -> CollectiveTimeout:
    seconds = match["seconds"]
    return CollectiveTimeout(op=match["op"].split(";")[0], timeout_ms=int(seconds) * 1000 if seconds else None)


SIGNATURES = (
    # waiting for other participants
    signature(r"Termination timeout for `(?P<op>[^`\n]{0,300})` of (?P<seconds>\d+) seconds exceeded", _timed_out),
)
