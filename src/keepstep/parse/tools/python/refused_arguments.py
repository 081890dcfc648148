# SPDX-License-Identifier: Apache-2.0
"""Programs that refuse their own arguments or configuration: argparse, click, hydra, omegaconf, absl, the interpreter.

They end without a traceback, so that what they print is read as an exception of the program.
"""

from __future__ import annotations

import re

from keepstep.core.facts.process import ExceptionRaised
from keepstep.parse.scan.signature import Signature, signature


def _refusal(kind: str, pattern: str, *anchors: str) -> Signature:
    def make(match: re.Match[str]) -> ExceptionRaised:
        return ExceptionRaised(type=kind, message=match["message"].strip(), lines=0)

    return signature(pattern, make, anchors=anchors)


SIGNATURES = (
    _refusal(
        "ArgumentError",
        r"^[^\n:]{1,80}: error: (?P<message>(?:unrecognized arguments|the following arguments are required|argument \S+:"
        r"|ambiguous option|invalid choice|one of the arguments|too few arguments)[^\n]{0,200})",
        "error: unrecognized arguments",
        "error: the following arguments are required",
        "error: argument ",
        "error: ambiguous option",
        "error: one of the arguments",
        "error: too few arguments",
    ),
    _refusal(
        "UsageError",
        r"^Error: (?P<message>(?:No such option|Got unexpected extra argument|Missing (?:option|argument|parameter)|Invalid value for)[^\n]{0,160})",
        "Error: No such option",
        "Error: Got unexpected extra",
        "Error: Missing ",
        "Error: Invalid value for",
    ),
    _refusal("OverrideError", r"(?P<message>[Oo]verride '[^'\n]{1,80}' not found)", "verride '"),
    _refusal("OverrideError", r"(?P<message>Could not override '[^'\n]{1,120}')", "Could not override '"),
    _refusal(
        "OverrideError",
        r"(?P<message>(?:LexerNoViableAltException|mismatched input|token recognition error|no viable alternative at input|Error parsing override '[^'\n]{1,120}')[^\n]{0,80})",
        "LexerNoViableAltException",
        "mismatched input",
        "token recognition error",
        "no viable alternative at input",
        "Error parsing override",
    ),
    _refusal("FlagError", r"^FATAL Flags parsing error: *(?P<message>[^\n]{0,160})", "FATAL Flags parsing error"),
    _refusal("FlagError", r"(?P<message>Unknown command line flag '[^'\n]{1,80}')", "Unknown command line flag '"),
    _refusal("FireError", r"^ERROR: (?P<message>Could not consume arg: [^\n]{0,120})", "Could not consume arg:"),
    _refusal(
        "ModuleNotFoundError",
        r"python[\d.]*: (?:Error while finding module specification for [^\n(]{1,160}\(\w{1,40}: )?(?P<message>No module named [^\s;)]{1,160})",
        ": No module named ",
    ),
    _refusal("FileNotFoundError", r"python[\d.]*: can't open file (?P<message>[^\n]{0,200})", "can't open file"),
)
