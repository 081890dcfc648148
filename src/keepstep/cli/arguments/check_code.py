# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check code``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Read training programs and name what would make ranks hang, differ or train on
the wrong thing. Nothing is imported or run. Everything after `code` is a file
or a folder; notebooks, DeepSpeed's and Accelerate's settings, scripts that
start trainings, and Kubernetes manifests are read too.

  keepstep check code train.py           a script, with what it imports
                                         from beside it
  keepstep check code .                  a project
  keepstep check code . --fix            and make the changes that are safe
  keepstep check code . --format sarif   for code hosts and editors

Switch a finding off on its line, with the reason:
  dist.barrier()  # keepstep: ignore[COD001] only rank 0 gets here by design
from a line `# keepstep: off[COD001]` until a line `# keepstep: on`, or in
keepstep.toml (in pyproject.toml the section is [tool.keepstep.check.code]):
  [check.code]
  ignore = ["COD105"]
  exclude = ["third_party"]
  per-file-ignores = { "examples/*" = ["COD1"] }

Begin with old code: keep what it has today, and see only what is new.
  keepstep check code . --write-baseline keepstep-baseline.json
  keepstep check code . --baseline keepstep-baseline.json
  keepstep check code . --diff origin/main

Status: 0 nothing to report, 1 problems (with --fix: those that are left),
2 a wrong option or file, 3 nothing found, but not all could be read.
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
    code.add_argument("paths", nargs="*", metavar="PATH", help="a file or a folder; - is a program on standard input")
    which = code.add_argument_group("what is reported")
    which.add_argument(
        "--select", metavar="RULES", action="append", default=[], help="only these, by id or its beginning: COD1,COD201"
    )
    which.add_argument("--ignore", metavar="RULES", action="append", default=[], help="not these")
    which.add_argument("--preview", action="store_true", help="also the rules that are more often wrong")
    which.add_argument(
        "--baseline", metavar="FILE", help="not what this file knows: by rule, file and text of the line"
    )
    which.add_argument(
        "--write-baseline", metavar="FILE", help="write what is found to this file, and report nothing of it"
    )
    which.add_argument(
        "--diff", metavar="COMMIT", help="only what stands on lines that changed since this commit or branch"
    )
    fixes = code.add_argument_group("changes")
    fixes.add_argument("--fix", action="store_true", help="make the changes of one line that are safe")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="also those that change what is computed")
    fixes.add_argument("--show-fixes", action="store_true", help="print the changes as a diff, and make none")
    form = code.add_argument_group("how it is reported")
    form.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github"),
        default="text",
        help="for people (default), keepstep.report/1, SARIF 2.1.0, or GitHub's workflow commands",
    )
    form.add_argument("--json", action="store_true", help="the same as --format json")
    form.add_argument("--statistics", action="store_true", help="also how often each rule was found")
    form.add_argument("--exit-zero", action="store_true", help="end with status 0 though problems were found")
    how = code.add_argument_group("how files are read")
    how.add_argument("--stdin-filename", metavar="FILE", help="the name of the program on standard input")
    how.add_argument("--follow", action="store_true", help="follow links in PATH that lead outside it")
    how.add_argument("--no-cache", action="store_true", help="read everything again, and keep nothing")
