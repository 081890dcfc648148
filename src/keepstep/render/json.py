# SPDX-License-Identifier: Apache-2.0
"""The report as one JSON document, schema ``keepstep.report/1``."""

from __future__ import annotations

import json

from keepstep.core.codec import report_to_dict
from keepstep.core.redact import redacted
from keepstep.core.report import Report


def render_json(report: Report) -> str:
    """The document, redacted, ending in a newline. Plain ASCII, so that no terminal or pipe chokes on it."""
    return json.dumps(report_to_dict(redacted(report)), indent=2, allow_nan=False) + "\n"
