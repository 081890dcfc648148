# SPDX-License-Identifier: Apache-2.0
"""What one process saw, packed for another: plain dictionaries, ready for JSON."""

from __future__ import annotations

from typing import Any

from keepstep.check.place import Collected
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Coverage, CoverageState

SCHEMA = "keepstep.evidence/1"


def packed(looked: Collected) -> dict[str, Any]:
    """What was seen, as plain dictionaries."""
    coverage = [{"what": each.what, "state": each.state.value, "why": each.why} for each in looked.coverage]
    return {"schema": SCHEMA, "evidence": [to_dict(each) for each in looked.evidence], "coverage": coverage}


def unpacked(told: dict[str, Any], host: str) -> Collected:
    """The way back; what cannot be read becomes coverage."""
    looked = Collected()
    try:
        looked.add(*(from_dict(each) for each in told["evidence"]))
        for each in told["coverage"]:
            coverage = Coverage(what=str(each["what"]), state=CoverageState(each["state"]), why=str(each["why"]))
            if coverage not in looked.coverage:
                looked.coverage.append(coverage)
    except (ValueError, TypeError, KeyError) as error:
        looked.unavailable(f"what {host} saw", f"it cannot be read: {error}")
    return looked
