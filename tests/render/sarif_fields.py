# SPDX-License-Identifier: Apache-2.0
"""What our SARIF may say: the fields in use, their types, and which of them SARIF 2.1.0 demands.

Written by hand from the standard's text, sections 3.13 (the log) to 3.58 (notifications). A field that is not here is
an error, so a new one is looked up first; `tools.published_sarif` validates against the schema of OASIS itself.
"""

from __future__ import annotations

from typing import Any

TEXT, FLAG = {"type": "string", "minLength": 1}, {"type": "boolean"}
INDEX, LINE = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def fields(*needed: str, **known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, "required": list(needed), "additionalProperties": False}


def several(item: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": least}


MESSAGE = fields("text", text=TEXT)
LOCATION = fields(
    "physicalLocation",
    physicalLocation=fields(
        "artifactLocation",
        artifactLocation=fields("uri", uri={**TEXT, "pattern": r"^[A-Za-z0-9%/._~:@!$&'()*+,;=-]+$"}),
        region=fields(
            "startLine",
            startLine=LINE,
            startColumn=LINE,
            endLine=LINE,
            endColumn=LINE,
            snippet=fields("text", text={"type": "string"}),
        ),
    ),
)
RULE = fields(
    "id",
    id=TEXT,
    name=TEXT,
    shortDescription=MESSAGE,
    help=fields("text", text=TEXT, markdown=TEXT),
    helpUri={**TEXT, "pattern": "^https?://"},
    defaultConfiguration=fields(level=LEVEL),
    properties={"type": "object"},
)
FLOW = fields(
    "threadFlows", threadFlows=several(fields("locations", locations=several(fields(location=LOCATION), 1)), 1)
)
REPLACEMENT = fields(
    "deletedRegion",
    deletedRegion=fields("startLine", startLine=LINE, startColumn=LINE, endLine=LINE, endColumn=LINE),
    insertedContent=fields("text", text={"type": "string"}),
)
CHANGE = fields(
    "artifactLocation", "replacements", artifactLocation=fields("uri", uri=TEXT), replacements=several(REPLACEMENT, 1)
)
FIX = fields("artifactChanges", description=MESSAGE, artifactChanges={**several(CHANGE, 1), "uniqueItems": True})
RESULT = fields(
    "message",
    ruleId=TEXT,
    ruleIndex=INDEX,
    level=LEVEL,
    message=MESSAGE,
    locations=several(LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    relatedLocations={**several(LOCATION), "uniqueItems": True},
    codeFlows=several(FLOW),
    fixes={**several(FIX), "uniqueItems": True},
)
INVOCATION = fields(
    "executionSuccessful",
    executionSuccessful=FLAG,
    toolExecutionNotifications=several(fields("message", level=LEVEL, message=MESSAGE)),
)
RUN = fields(
    "tool",
    tool=fields(
        "driver",
        driver=fields(
            "name", name=TEXT, version=TEXT, informationUri=TEXT, rules={**several(RULE), "uniqueItems": True}
        ),
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=several(RESULT),
    invocations={**several(INVOCATION), "uniqueItems": True},
)
LOG = fields("version", "runs", **{"$schema": TEXT}, version={"const": "2.1.0"}, runs=several(RUN))
