# SPDX-License-Identifier: Apache-2.0
"""The report as one JSON document, schema ``keepstep.report/1``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from keepstep.base.redact import redacted
from keepstep.model.codec import report_to_dict
from keepstep.model.report import Report

DELETE = "\x7f"
"""The one control character that ``json`` writes as it is."""


def render_json(report: Report, also: Mapping[str, Any] | None = None) -> str:
    """The document, redacted, ending in a newline. Plain ASCII, which every terminal and pipe can take.

    ``also``: what a check found besides, under keys of its own.
    """
    return dumps({**report_to_dict(redacted(report)), **(also or {})}, indent=2) + "\n"


def dumps(document: Any, *, indent: int | None = None) -> str:
    """JSON without a control character in it, whatever its strings hold."""
    return json.dumps(document, indent=indent, allow_nan=False).replace(DELETE, "\\u007f")
