# SPDX-License-Identifier: Apache-2.0
"""Programs that reject their arguments or configuration: argparse, click, hydra, omegaconf, absl, the interpreter.

They end without a traceback, so what they print is read as an exception of the program.
"""

from __future__ import annotations

import re

from keepstep.model.facts.process import ExceptionRaised
from keepstep.parse.scan.signature import Signature, signature


def _refusal(kind: str, pattern: str) -> Signature:
    def make(match: re.Match[str]) -> ExceptionRaised:
        return ExceptionRaised(type=kind, message=match["message"].strip(), lines=0)

    return signature(pattern, make)


SIGNATURES = (
    _refusal(
        "ArgumentError",
        r"^[^\n:]{1,80}: error: (?P<message>(?:unrecognized arguments|the following arguments are required|argument \S+:"
        r"|ambiguous option|invalid choice|one of the arguments|too few arguments)[^\n]{0,200})",
    ),
    _refusal(
        "UsageError",
        r"^Error: (?P<message>(?:No such option|Got unexpected extra argument|Missing (?:option|argument|parameter)|Invalid value for)[^\n]{0,160})",
    ),
    _refusal("OverrideError", r"(?P<message>[Oo]verride '[^'\n]{1,80}' not found)"),
    _refusal("OverrideError", r"(?P<message>Could not override '[^'\n]{1,120}')"),
    _refusal(
        "OverrideError",
        r"(?P<message>(?:LexerNoViableAltException|mismatched input|token recognition error|no viable alternative at input|Error parsing override '[^'\n]{1,120}')[^\n]{0,80})",
    ),
    _refusal("FlagError", r"^FATAL Flags parsing error: *(?P<message>[^\n]{0,160})"),
    _refusal("FlagError", r"(?P<message>Unknown command line flag '[^'\n]{1,80}')"),
    _refusal("FireError", r"^ERROR: (?P<message>Could not consume arg: [^\n]{0,120})"),
    _refusal(
        "ModuleNotFoundError",
        r"python[\d.]*: (?:Error while finding module specification for [^\n(]{1,160}\(\w{1,40}: )?(?P<message>No module named [^\s;)]{1,160})",
    ),
    _refusal("FileNotFoundError", r"python[\d.]*: can't open file (?P<message>[^\n]{0,200})"),
)
