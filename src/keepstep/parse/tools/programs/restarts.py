# SPDX-License-Identifier: Apache-2.0
"""What launchers, schedulers and scripts print when they start a run, and when they start it again."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.restarts import EndpointGiven, LifeBegan, LifeEnded
from keepstep.parse.scan.signature import signature


def _numbered(match: re.Match[str]) -> Fact:
    return LifeBegan(by="the script", attempt=int(match["attempt"]))


_RUN = r"(?:(?:the )?(?:training|job|run|worker group|workers|script)[ ,:]{1,2})?"

SIGNATURES = (
    # how often it was restarted
    signature(r"\bSLURM_RESTART_COUNT ?[=:] ?['\"]?(?P<restarts>\d{1,4})\b", LifeBegan, by="Slurm"),
    signature(r"\bTORCHELASTIC_RESTART_COUNT['\"]? ?[=:] ?['\"]?(?P<restarts>\d{1,4})\b", LifeBegan, by="torchrun"),
    signature(r"^\s*restart_count=(?P<restarts>\d{1,4})\s*$", LifeBegan, by="torchrun"),
    signature(r"\bJOBSET_RESTART_ATTEMPT ?[=:] ?['\"]?(?P<restarts>\d{1,4})\b", LifeBegan, by="Kubernetes"),
    # where a run meets: two jobs may be given the same place
    signature(r"\bMASTER_PORT['\"]? ?[=:] ?['\"]?(?P<port>\d{4,5})\b", EndpointGiven),
    # once for each start
    signature(
        r"Setting OMP_NUM_THREADS environment variable for each process to be 1 in default", LifeBegan, by="torchrun"
    ),
    signature(r"Starting JAX distributed service on ", LifeBegan, by="JAX"),
    signature(r"Attempting to start training worker group of size \d", LifeBegan, by="Ray Train"),
    # scripts that count
    signature(
        rf"\b(?:[Ss]tarting|[Ll]aunching|[Bb]eginning) {_RUN}\(?attempt[ #:=]{{1,3}}(?P<attempt>\d{{1,3}})\b", _numbered
    ),
    signature(
        rf"\b[Rr]estarting {_RUN}\(?(?:attempt |restart )?#?(?P<attempt>\d{{1,3}}) ?(?:/|of) ?\d{{1,3}}\b", _numbered
    ),
    signature(
        r"\b[Aa]ttempt[ #:=]{1,3}(?P<attempt>\d{1,3})(?: is| was)? (?:starting|started|begins|begun|launched)\b",
        _numbered,
    ),
    # Kubernetes, on one container, when it happens; the counts of a description say nothing about when
    signature(
        r"\b[Rr]estart(?:ed|ing)\b[^\n]{0,60}\brestart[_ ]?[Cc]ount['\"]?[=: ]{1,2}(?P<restarts>[1-9]\d{0,3})\b",
        LifeBegan,
        by="Kubernetes",
    ),
    # ended in order to be started again
    signature(r"\*\*\* [^\n]{0,200}DUE TO JOB REQUEUE", LifeEnded, by="Slurm"),
    signature(r"; will restart worker group", LifeEnded, by="torchrun"),
    signature(r"\b[Rr]equeued (?:exp|SLURM job:?) \d", LifeEnded, by="Lightning"),
    signature(
        r"\b[Rr]equeu(?:e?ing|ed) (?:the |this )?(?:Slurm |SLURM )?(?:job|gang|task)\b", LifeEnded, by="the script"
    ),
    signature(
        r"\b(?:exit(?:ed)? (?:with )?(?:code|status) \d{1,3}|crashed|got signal \d{1,2})[^\n]{0,60}[;,.:( ](?:[Rr]estarting|[Rr]elaunching|will (?:be )?restart)",
        LifeEnded,
        by="the script",
    ),
)
