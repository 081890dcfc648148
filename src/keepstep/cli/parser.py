# SPDX-License-Identifier: Apache-2.0
"""The verbs and their options.

``argparse``, because it starts in a tenth of the time of the friendlier libraries
and ``keepstep --help`` must be instant.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from keepstep import __version__
from keepstep.core.visible import visible
from keepstep.errors import KeepstepError

_EPILOG = """\
exit status:
  0 nothing wrong   1 problems found   2 usage error   3 could not look
  70 keepstep itself broke

examples:
  keepstep why logs/                     a folder of logs, cores and dumps
  keepstep why slurm-4711.out            one file, also .gz or .zst
  kubectl logs job/train | keepstep why -
  keepstep why --live                    the stuck job on this host
  keepstep run -n 4 -- python train.py   start, watch, explain and bring back
  keepstep why last                      the last run of `keepstep run`
  keepstep rules show NET002             what a rule knows
  keepstep lab run torch_segfault        break a real training, see what is said
"""

_WHY = """\
Say which rank of a distributed training run broke first, why, how we know
and what to do, from whatever the run left. Works on runs that keepstep never saw.

PATH is a folder, log files (plain, .gz, .zst, .bz2, .xz; one rank each or several
interleaved with any launcher's prefixes), core files, PyTorch flight-recorder
dumps, `-` for standard input, `slurm:JOBID`, or `k8s:NAMESPACE/JOB`.
"""

_CHECK = """\
Look at this host and at what the variables of the job say, and name what would kill
the run, each with its fix. Alone, it says at once what one process can tell. Run it the
way the job is run, one process a rank or a host, and the processes find each other,
compare, and rank 0 prints one report:

  keepstep check                          this machine, at once
  keepstep check --wait                   started by hand, once for each rank or host
  srun keepstep check                     under Slurm
  torchrun --no-python keepstep check     under torchrun
  mpirun keepstep check                   under MPI
"""

_RUN = """\
Start the ranks of a training on this machine, watch them, say why they failed
or hang, and bring the run back when that can help.

  keepstep run -n 4 -- python train.py
      four ranks of a TensorFlow, PyTorch or JAX script, which is not changed
  keepstep run -n 2 --ps 1 -- python train.py
      TensorFlow: a chief, a worker and a parameter server
  keepstep run -- torchrun --nproc-per-node 4 train.py
  keepstep run -- python train.py
      your own launcher or program, as it is: it gets no variables of a rank, its
      ranks are found through the guard, and only --max-attempts restarts it

With -n every rank gets TF_CONFIG, RANK, MASTER_ADDR and their kin, and JAX's
coordinator. Nothing needs to be configured: what is usual is learned while the
run goes on. When a rank fails, or all stand still, the stacks of all ranks are
taken, the cause is named, and what is decided is printed before it is done:
what would only fail again ends the run, what may have passed is restarted.

All is kept in .keepstep/runs/TIME-NAME: `keepstep runs` lists what there is,
`keepstep why last` explains the last run again. The exit status is that of the
first rank that failed (128+N for a signal), and 0 only when all ended well.
Ctrl-C ends the ranks (SIGTERM, a time of grace, SIGKILL); again: at once.
"""

_TRUST = """\
A keepstep.toml that keepstep finds on its way up may be anybody's. Its TOML signatures are
used; Python in its folder runs only after you have said so here. Read the files first.
The decision is for this folder and for the files as they are now: when one changes, you are
asked again. It is kept in ~/.config/keepstep/trusted.json.
"""

_LAB = """\
Start a real distributed training of TensorFlow, PyTorch or JAX on this machine,
break it in a named way, prove that it broke, and see what keepstep says of it.

Nothing is left afterwards: processes, network namespaces, control groups, mounts and
temporary files are removed, also after Ctrl-C or when the lab itself is killed.
Exit status: 0 keepstep was right, 1 it was not, 3 it could not be carried out here.
"""

_GUESTS = """\
Run other people's kinds of programs (Lightning, Accelerate, Ray Train, Keras, Flax and
more, as their documentation writes them) without keepstep and with it:

  plain    their own launcher, without keepstep
  guard    KEEPSTEP=on and their own launcher
  ranks    keepstep run -n 2 -- python program.py
  wrapped  keepstep run -- their own launcher

A healthy guest must end well, with keepstep silent, the same losses to the last digit
as without it, and nothing left behind. A broken one is struck from outside, and keepstep
must name the cause and the rank, and bring it back or end it, as the fault asks for.
What is not installed is skipped, and said.
Nothing stays on the machine afterwards, also after Ctrl-C.
Exit status: 0 all as it must be, 1 not, 3 nothing could be run here.
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
    why.add_argument(
        "--pid",
        type=int,
        action="append",
        default=[],
        metavar="PID",
        help="with --live: these processes only (repeatable)",
    )
    why.add_argument("--json", action="store_true", help="print one JSON document (schema keepstep.report/1)")
    why.add_argument("--html", metavar="FILE", help="also write one self-contained page")
    why.add_argument(
        "--bundle", metavar="FILE", help="also write one archive (.tar.gz) with the report and all evidence, redacted"
    )
    why.add_argument("--force", action="store_true", help="overwrite FILE of --html and --bundle")
    why.add_argument(
        "--config",
        metavar="FILE",
        help="keepstep.toml to use, Python rules included (default: the nearest one upwards, for its TOML signatures)",
    )
    why.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FOLDER",
        help="use your own rules in FOLDER, Python included (repeatable)",
    )
    why.add_argument("--follow", action="store_true", help="also read what links inside of PATH lead to outside of it")
    why.add_argument("--no-kernel-log", action="store_true", help="do not read this host's kernel log")
    why.add_argument(
        "--seconds-per-file",
        type=float,
        default=20.0,
        metavar="S",
        help="a log that takes longer than S seconds of processor time, and one more for each megabyte of it, is left there; the report says so (default: 20)",
    )
    why.set_defaults(run="why")

    _add_check(verbs)
    _add_run(verbs)
    rules = verbs.add_parser("rules", help="the knowledge, readable", description="List, search and show the rules.")
    rules.add_argument("--json", action="store_true", help="as JSON")
    rules.add_argument("--config", metavar="FILE", help="keepstep.toml with your own rules")
    rules.add_argument(
        "--rules", action="append", default=[], metavar="FOLDER", help="a folder of your own rules (repeatable)"
    )
    rules.set_defaults(run="rules", ask="list", words=[])
    asks = rules.add_subparsers(dest="ask_given", metavar="list | search WORDS | show ID | trust FOLDER")
    for name, about in (
        ("list", "all rules"),
        ("search", "rules that speak of these words"),
        ("show", "all that a rule knows"),
    ):
        ask = asks.add_parser(name, help=about)
        ask.set_defaults(ask=name)
        ask.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as JSON")
        if name != "list":
            ask.add_argument("words", nargs="+", metavar="WORD" if name == "search" else "ID")
    trust = asks.add_parser(
        "trust",
        help="let the Python rules of a folder run, as they are now",
        description=_TRUST,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    trust.set_defaults(ask="trust")
    trust.add_argument("words", nargs="*", metavar="FOLDER")
    trust.add_argument("--list", action="store_true", help="show the folders that you trust")
    trust.add_argument("--forget", action="store_true", help="no longer trust FOLDER")
    _add_lab(verbs)
    return parser


def _add_check(verbs: Any) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    check = verbs.add_parser(
        "check", help="find what would kill the run, before it starts", description=_CHECK, formatter_class=plain
    )
    check.add_argument(
        "parts", nargs="*", metavar="config | network | env | resources", help="only these parts (default: all)"
    )
    check.add_argument("--script", metavar="FILE", help="the training script: its content must be the same everywhere")
    check.add_argument(
        "--path",
        metavar="DIR",
        action="append",
        default=[],
        help="where the run will write checkpoints or logs (repeatable)",
    )
    check.add_argument(
        "--meet", metavar="HOST:PORT", help="where rank 0's check listens (default: as the launcher's variables say)"
    )
    check.add_argument(
        "--wait",
        type=float,
        nargs="?",
        const=30.0,
        metavar="SECONDS",
        help="wait so long for the other processes of the job (30 s where no number is given; the default under a launcher that started them, else nobody is waited for)",
    )
    check.add_argument(
        "--sample",
        type=int,
        metavar="ROUNDS",
        help="let each host meet so many others instead of all (for thousands of hosts)",
    )
    check.add_argument("--json", action="store_true", help="print one JSON document (schema keepstep.report/1)")
    check.add_argument("--html", metavar="FILE", help="also write one self-contained page")
    check.add_argument("--force", action="store_true", help="overwrite FILE of --html")
    check.add_argument(
        "--hosts", metavar="A,B,C", help="check these hosts over ssh; with --write: the hosts of the cluster"
    )
    check.add_argument(
        "--remote",
        metavar="COMMAND",
        default="keepstep",
        help="with --hosts: how keepstep is called there (default: keepstep)",
    )
    check.add_argument("--member", type=int, help=argparse.SUPPRESS)
    check.add_argument("--evidence", action="store_true", help=argparse.SUPPRESS)
    writing = check.add_argument_group(
        "writing the variables",
        "`keepstep check config --write` prints TF_CONFIG and the torch and JAX variables of each rank",
    )
    writing.add_argument("--write", action="store_true", help="print them, from Slurm, MPI, Kubernetes or --hosts")
    writing.add_argument(
        "--per-host", type=int, default=1, metavar="N", help="tasks on each host of --hosts (default: 1)"
    )
    writing.add_argument("--chief", action="store_true", help="the first task is a chief")
    writing.add_argument("--ps", type=int, default=0, metavar="N", help="the last N tasks are parameter servers")
    writing.add_argument(
        "--port", type=int, default=2222, metavar="PORT", help="the first port on each host (default: 2222)"
    )
    check.set_defaults(run="check")


def _add_run(verbs: Any) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    run_ = verbs.add_parser(
        "run",
        help="start, watch and bring back a training",
        description=_RUN,
        formatter_class=plain,
        usage="keepstep run [options] -- COMMAND ...",
    )
    run_.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="what every rank runs; without -n your own launcher or program",
    )
    run_.add_argument("-n", "--ranks", type=int, metavar="N", help="start N ranks that train, and set their variables")
    run_.add_argument("--name", metavar="NAME", help="name of the run (default: the script's)")
    run_.add_argument("--run-dir", metavar="DIR", help="where run folders are made (default: .keepstep/runs)")
    run_.add_argument("--no-check", action="store_true", help="start without the fast parts of `keepstep check`")
    run_.add_argument(
        "-q", "--quiet", action="store_true", help="do not show what the ranks print (it is in the run folder)"
    )
    roles = run_.add_argument_group("TensorFlow roles")
    roles.add_argument("--chief", action="store_true", help="the first of the N is the chief")
    roles.add_argument(
        "--ps",
        type=int,
        default=0,
        metavar="K",
        help="K parameter servers besides (the first of the N is then the chief)",
    )
    roles.add_argument("--evaluator", action="store_true", help="one evaluator besides")
    back = run_.add_argument_group("coming back")
    back.add_argument(
        "--max-attempts",
        type=int,
        metavar="N",
        help="attempts without progress in between (default: 4 with -n; without it your command is not restarted)",
    )
    back.add_argument(
        "--remedy",
        choices=("off", "safe", "ask", "all"),
        default="safe",
        help="what may be changed for the next attempt: nothing, what changes no results (default), what you agree to, all",
    )
    back.add_argument(
        "--max-lost-work",
        default="10m",
        metavar="TIME",
        help="do not restart by itself where the script would begin at its first step again and lose more work than this, as 90s, 10m, 2h (default: 10m), or overwrite the checkpoints of so much work; off: restart all the same",
    )
    back.add_argument(
        "--no-spares",
        action="store_true",
        help="keep no warm processes in waiting (they cost memory and bring the run back sooner)",
    )
    back.add_argument(
        "--on-failure",
        metavar="COMMAND|URL",
        help="is told of each failure: the report as JSON on its standard input, or by POST",
    )
    times = run_.add_argument_group("times", "nobody needs these: they are learned")
    times.add_argument(
        "--hang-timeout",
        type=float,
        metavar="SECONDS",
        help="how long steps may stand still before stacks are looked at",
    )
    times.add_argument(
        "--suspected-wait",
        type=float,
        metavar="SECONDS",
        help="how long a hang that nothing proves may go on before a restart (default: as long as a restart would cost)",
    )
    times.add_argument(
        "--grace", type=float, default=10.0, metavar="SECONDS", help="between SIGTERM and SIGKILL (default: 10)"
    )
    run_.set_defaults(run="run")
    runs = verbs.add_parser(
        "runs", help="list the runs of this folder", description="List what `keepstep run` has kept, the newest last."
    )
    runs.add_argument("--run-dir", metavar="DIR", help="where run folders are (default: .keepstep/runs)")
    runs.add_argument("--json", action="store_true", help="as JSON")
    runs.add_argument(
        "--prune", action="store_true", help="remove old ones instead (this also happens by itself when a run starts)"
    )
    runs.add_argument("--keep", type=int, default=5, metavar="N", help="with --prune: never the newest N (default: 5)")
    runs.add_argument(
        "--keep-days",
        type=float,
        default=30.0,
        metavar="DAYS",
        help="with --prune: those younger than this stay (default: 30) ...",
    )
    runs.add_argument(
        "--keep-gb",
        type=float,
        default=10.0,
        metavar="GB",
        help="... unless all take more than this together (default: 10)",
    )
    runs.set_defaults(run="runs")


def _add_lab(verbs: Any) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    lab = verbs.add_parser("lab", help="real faults on real jobs, on demand", description=_LAB, formatter_class=plain)
    asks = lab.add_subparsers(dest="ask", metavar="list | run NAME | score | guests", required=True)
    scenarios = asks.add_parser("list", help="the scenarios")
    run_ = asks.add_parser("run", help="carry one out, and say what keepstep says of it")
    score = asks.add_parser("score", help="carry out many, and count")
    lab.set_defaults(run="lab")
    run_.add_argument("name", metavar="NAME", help="see `keepstep lab list`")
    run_.add_argument("--keep", metavar="DIR", help="copy what the run left to DIR")
    run_.add_argument(
        "--script",
        metavar="FILE",
        help="break this training script instead of the lab's own job (faults from outside only)",
    )
    for each in (run_, score):
        each.add_argument(
            "--with",
            dest="watch",
            default="",
            choices=("guard", "run"),
            help="guard: run the ranks with KEEPSTEP=on, and judge only what the guard wrote down; run: start them by `keepstep run`, and judge its report",
        )
    run_.add_argument(
        "--mark",
        metavar="TEXT",
        help="with --script: the fault strikes when a rank has printed this (default: as the scenario says)",
    )
    for each in (scenarios, score):
        each.add_argument("names", nargs="*", metavar="NAME", help="only these")
        each.add_argument("--framework", choices=("tensorflow", "torch", "jax"), help="only of this framework")
    for each in (run_, score):
        each.add_argument("--record", metavar="DIR", help="keep each as a recording under DIR")
        each.add_argument(
            "--python", metavar="PYTHON", default=sys.executable, help="the Python that trains (default: this one)"
        )
    score.add_argument("--replay", metavar="DIR", help="judge the recordings under DIR; start nothing")
    score.add_argument("--quick", action="store_true", help="only the small part that `make test` runs")
    score.add_argument("--jobs", type=int, default=1, metavar="N", help="so many side by side (default: 1)")
    score.add_argument("--markdown", metavar="FILE", help="also write the table to FILE")
    for each in (scenarios, run_, score):
        each.add_argument("--json", action="store_true", help="as JSON")
    _add_guests(asks)


def _add_guests(asks: Any) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    guests = asks.add_parser(
        "guests", help="other people's kinds of programs, run unmodified", description=_GUESTS, formatter_class=plain
    )
    verbs = guests.add_subparsers(dest="guests_ask", metavar="list | run NAME | score", required=True)
    listed = verbs.add_parser("list", help="the guests, and which ways there are to run them")
    run_ = verbs.add_parser("run", help="run one, and judge it")
    score = verbs.add_parser("score", help="run many, judge them, and count")
    run_.add_argument("name", metavar="NAME", help="see `keepstep lab guests list`")
    run_.add_argument("--keep", metavar="DIR", help="copy what each run left to DIR")
    for each in (listed, score):
        each.add_argument("names", nargs="*", metavar="NAME", help="only these")
        each.add_argument("--framework", choices=("tensorflow", "torch", "jax"), help="only of this framework")
    for each in (run_, score):
        each.add_argument(
            "--way",
            action="append",
            choices=("plain", "guard", "ranks", "wrapped"),
            help="only this way (repeatable; default: all that apply)",
        )
    run_.add_argument(
        "--fault",
        action="append",
        metavar="FAULT",
        help="break it in this way, from outside (repeatable; `all`: those it is scored with); see `guests list --faults`",
    )
    listed.add_argument("--faults", action="store_true", help="the faults instead")
    kinds = score.add_mutually_exclusive_group()
    kinds.add_argument("--healthy", action="store_true", help="only unbroken guests")
    kinds.add_argument("--broken", action="store_true", help="only broken guests")
    score.add_argument("--quick", action="store_true", help="only the small part that `make test` runs")
    score.add_argument("--jobs", type=int, default=1, metavar="N", help="so many side by side (default: 1)")
    score.add_argument(
        "--load", type=int, default=0, metavar="N", help="keep N more processes busy all the while (default: 0)"
    )
    score.add_argument("--markdown", metavar="FILE", help="also write the tables to FILE")
    for each in (listed, run_, score):
        each.add_argument("--json", action="store_true", help="as JSON; progress goes to standard error")


def _with_seconds(arguments: list[str]) -> list[str]:
    """`check --wait network`: a part of the check is no number of seconds."""
    if arguments[:1] != ["check"]:
        return arguments
    return [
        "--wait=30" if word == "--wait" and following.isalpha() else word
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True)
    ]


def run(arguments: list[str]) -> int:
    """Parse and do; user mistakes never show a traceback."""
    parser = build()
    asked = parser.parse_args(_with_seconds(arguments))
    if asked.verb is None:
        parser.print_help()
        return 0
    try:
        if asked.run == "why":
            from keepstep.cli.why import why

            return why(asked)
        if asked.run == "check":
            from keepstep.cli.check import check_verb

            return check_verb(asked)
        if asked.run == "run":
            from keepstep.cli.run import run_verb

            return run_verb(asked)
        if asked.run == "runs":
            from keepstep.cli.runs import runs_verb

            return runs_verb(asked)
        if asked.run == "lab":
            from keepstep.cli.lab import lab

            return lab(asked)
        from keepstep.cli.rules import rules

        return rules(asked)
    except KeepstepError as error:
        print(visible(f"keepstep: {error}"), file=sys.stderr)
        if error.hint:
            print(visible(f"  hint: {error.hint}"), file=sys.stderr)
        return error.exit_status
