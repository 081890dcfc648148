# SPDX-License-Identifier: Apache-2.0
"""What launchers, schedulers and scripts print when they start a run, and when they start it again."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.restarts import LifeBegan
from keepstep.parse.scan.signature import signature


def _numbered(match: re.Match[str]) -> Fact:
    return LifeBegan(by="the script", attempt=int(match["attempt"]))


_RUN = r"(?:(?:the )?(?:training|job|run|worker group|workers|script)[ ,:]{1,2})?"

SIGNATURES = (
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
)
