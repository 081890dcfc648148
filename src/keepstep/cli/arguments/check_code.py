# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check code``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Read training programs and name what would make ranks hang, differ or train on
the wrong thing. Nothing is imported or run. Everything after `code` is a file
or a folder; notebooks are read too.

  keepstep check code train.py           a script, with what it imports
                                         from beside it
  keepstep check code .                  a project
  keepstep check code . --format sarif   for code hosts and editors

Switch a finding off on its line, with the reason:
  dist.barrier()  # keepstep: ignore[COD001] only rank 0 gets here by design
or in keepstep.toml:
  [check.code]
  ignore = ["COD105"]
  exclude = ["third_party"]
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    code = add_verb(
        verbs,
        "check code",
        "find what makes ranks hang or differ, in programs",
        DESCRIPTION,
        usage="keepstep check code PATH... [options]",
    )
    code.add_argument("paths", nargs="*", metavar="PATH", help="a file or a folder")
    code.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github"),
        default="text",
        help="for people (default), keepstep.report/1, SARIF 2.1.0, or GitHub's workflow commands",
    )
    code.add_argument("--json", action="store_true", help="the same as --format json")
    code.add_argument(
        "--select", metavar="RULES", action="append", default=[], help="only these, by id or its beginning: COD1,COD201"
    )
    code.add_argument("--ignore", metavar="RULES", action="append", default=[], help="not these")
    code.add_argument("--follow", action="store_true", help="follow links in PATH that lead outside it")
    code.add_argument("--preview", action="store_true", help="also the rules that are more often wrong")
