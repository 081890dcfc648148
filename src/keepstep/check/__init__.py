# SPDX-License-Identifier: Apache-2.0
"""The preflight: what would kill the run, found before it starts. From Python: ``keepstep.check.check("network")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.render.shown_report import ShownPreflight


def check(*parts: str, **settings: Any) -> ShownPreflight | None:
    """Check these parts, or all, and return the report; None on ranks other than 0 of a job.

    ``settings`` are the fields of :class:`keepstep.check.checkup.CheckRequest`.
    """
    from keepstep.check.checkup import CheckRequest
    from keepstep.check.checkup import check as carry_out
    from keepstep.check.parts import PARTS
    from keepstep.render.shown_report import shown_preflight

    unknown = set(parts) - set(PARTS)
    if unknown:
        raise ValueError(f"no such part: {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    report = carry_out(CheckRequest(parts=parts or tuple(PARTS), **settings)).report
    return shown_preflight(report) if report is not None else None
