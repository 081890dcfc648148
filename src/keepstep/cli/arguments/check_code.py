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
    code.add_argument(
        "--baseline", metavar="FILE", help="do not report what this file knows: by rule, file and text of the line"
    )
    code.add_argument(
        "--write-baseline", metavar="FILE", help="write what is found to this file, and report nothing of it"
    )
    code.add_argument(
        "--diff", metavar="COMMIT", help="only what stands on lines that changed since this commit or branch"
    )
    code.add_argument("--statistics", action="store_true", help="also how often each rule was found")
    code.add_argument("--exit-zero", action="store_true", help="end with status 0 though problems were found")
