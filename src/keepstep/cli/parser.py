# SPDX-License-Identifier: Apache-2.0
"""The verbs and their options.

``argparse``, because it starts in a tenth of the time of the friendlier libraries
and ``keepstep --help`` must be instant.
"""

from __future__ import annotations

import argparse
import sys

from keepstep import __version__
from keepstep.errors import KeepstepError

_EPILOG = """\
exit status:
  0 nothing wrong   1 problems found   2 usage error   3 could not look

examples:
  keepstep why logs/                     a folder of logs, cores and dumps
  keepstep why slurm-4711.out            one file, also .gz or .zst
  kubectl logs job/train | keepstep why -
  keepstep why --live                    the stuck job on this host
  keepstep rules show NET002             what a rule knows
"""

_WHY = """\
Say which rank of a distributed training run broke first, why, how we know
and what to do, from whatever the run left. Works on runs that keepstep never saw.

PATH is a folder, log files (plain, .gz, .zst, .bz2, .xz; one rank each or several
interleaved with any launcher's prefixes), core files, PyTorch flight-recorder
dumps, `-` for standard input, `slurm:JOBID`, or `k8s:NAMESPACE/JOB`.
"""


def build() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="keepstep",
        description="keepstep keeps distributed training in step, or tells you why it is not.",
        epilog=_EPILOG,
        formatter_class=plain,
    )
    parser.add_argument("--version", action="version", version=f"keepstep {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")

    why = verbs.add_parser("why", help="explain a failed or stuck run", description=_WHY, formatter_class=plain)
    why.add_argument("paths", nargs="*", metavar="PATH", help="what the run left")
    why.add_argument("--live", action="store_true", help="look at the training processes of this host instead")
    why.add_argument("--pid", type=int, action="append", default=[], metavar="PID", help="with --live: these processes only (repeatable)")
    why.add_argument("--json", action="store_true", help="print one JSON document (schema keepstep.report/1)")
    why.add_argument("--html", metavar="FILE", help="also write one self-contained page")
    why.add_argument("--bundle", metavar="FILE", help="also write one archive (.tar.gz) with the report and all evidence, redacted")
    why.add_argument("--force", action="store_true", help="overwrite FILE of --html and --bundle")
    why.add_argument("--config", metavar="FILE", help="keepstep.toml to use (default: the nearest one upwards)")
    why.add_argument("--no-kernel-log", action="store_true", help="do not read this host's kernel log")
    why.set_defaults(run="why")

    rules = verbs.add_parser("rules", help="the knowledge, readable", description="List, search and show the rules.")
    rules.add_argument("--json", action="store_true", help="as JSON")
    rules.add_argument("--config", metavar="FILE", help="keepstep.toml with your own rules")
    rules.set_defaults(run="rules", ask="list", words=[])
    asks = rules.add_subparsers(dest="ask_given", metavar="list | search WORDS | show ID")
    for name, about in (("list", "all rules"), ("search", "rules that speak of these words"), ("show", "all that a rule knows")):
        ask = asks.add_parser(name, help=about)
        ask.set_defaults(ask=name)
        ask.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as JSON")
        if name != "list":
            ask.add_argument("words", nargs="+", metavar="WORD" if name == "search" else "ID")
    return parser


def run(arguments: list[str]) -> int:
    """Parse and do; user mistakes never show a traceback."""
    parser = build()
    asked = parser.parse_args(arguments)
    if asked.verb is None:
        parser.print_help()
        return 0
    try:
        if asked.run == "why":
            from keepstep.cli.why import why

            return why(asked)
        from keepstep.cli.rules import rules

        return rules(asked)
    except KeepstepError as error:
        print(f"keepstep: {error}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_status
