# SPDX-License-Identifier: Apache-2.0
"""What each verb accepts, apart from the verb itself: `--help` must not import what the verbs need."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Parser: TypeAlias = argparse.ArgumentParser
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_verb(verbs: Verbs, name: str, help: str, description: str, usage: str | None = None) -> Parser:
    """A verb whose description is printed as it is written."""
    plain = argparse.RawDescriptionHelpFormatter
    return verbs.add_parser(name, help=help, description=description, usage=usage, formatter_class=plain)


def add_report_options(parser: Parser) -> None:
    """How a report is printed."""
    parser.add_argument("--json", action="store_true", help="print one JSON document (schema keepstep.report/1)")
    parser.add_argument("--html", metavar="FILE", help="also write the report as one self-contained HTML page")
