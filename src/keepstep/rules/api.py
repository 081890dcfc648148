# SPDX-License-Identifier: Apache-2.0
"""What the author of a rule needs, in one import: the types of the pipe, every fact, and how things are worded."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern as lazy_pattern
from keepstep.base.wording import called as called
from keepstep.base.wording import count as count
from keepstep.base.wording import duration as duration
from keepstep.base.wording import listing as listing
from keepstep.base.wording import ranks as ranks
from keepstep.base.wording import shorten as shorten
from keepstep.base.wording import size as size
from keepstep.model.cause import SEEN_BY_OTHER_RANKS as SEEN_BY_OTHER_RANKS
from keepstep.model.cause import Cause as Cause
from keepstep.model.evidence import TO_THE_END as TO_THE_END
from keepstep.model.evidence import Evidence as Evidence
from keepstep.model.evidence import EvidenceSet as EvidenceSet
from keepstep.model.evidence import Origin as Origin
from keepstep.model.facts import *  # noqa: F403
from keepstep.model.finding import RUN_FOLDER as RUN_FOLDER
from keepstep.model.finding import Confidence as Confidence
from keepstep.model.finding import Edit as Edit
from keepstep.model.finding import Fix as Fix
from keepstep.model.finding import Found as Found
from keepstep.model.finding import Safety as Safety
from keepstep.model.finding import Severity as Severity
from keepstep.model.finding import Standing as Standing
from keepstep.model.finding import ranks_of as ranks_of
from keepstep.model.identity import HostPid as HostPid
from keepstep.model.identity import everyone as everyone
from keepstep.model.rule import rule as rule

Findings = Iterator[Found]
"""What a rule yields."""
