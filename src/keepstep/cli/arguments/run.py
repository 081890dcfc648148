# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep run``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Parser, Verbs, add_verb

DESCRIPTION = """\
Start the ranks of a training job, on this machine or on several, watch them,
say why they fail or hang, and restart the job when that can help.

  keepstep run -n 4 -- python train.py
      four ranks of an unmodified TensorFlow, PyTorch or JAX script
  keepstep run -n 2 --ps 1 -- python train.py
      TensorFlow: a chief, a worker and a parameter server
  keepstep run -- torchrun --nproc-per-node 4 train.py
  keepstep run -- python train.py
      your own launcher or program, unchanged: keepstep sets no rank variables,
      finds its ranks through the guard, and restarts it only if you give
      --max-attempts

Several nodes, with 4 ranks on each:

  srun keepstep run --per-node 4 -- python train.py
      in a Slurm job with one task per node
  keepstep run --nodes 2 --per-node 4 -- python train.py
      as the command of the pods of a Kubernetes Job, JobSet or TrainJob
  keepstep run --on ray --nodes 2 --per-node 4 -- python train.py
      on nodes of a Ray cluster, also under `ray job submit --`
  keepstep run --hosts node-1,node-2 --per-node 4 -- python train.py
      over ssh; this process leads and has no ranks
  keepstep run --nodes 2 --node-rank 0 --meet HOST:PORT --per-node 4 -- CMD
      on each node, with its own --node-rank; node 0 leads

With -n, every rank gets TF_CONFIG, RANK, MASTER_ADDR and the like, and JAX's
coordinator. Nothing needs to be configured: keepstep learns what is normal
while the job runs. When a rank fails, or all ranks hang, keepstep takes the
stacks of all ranks, names the cause, and prints what it decides before doing
it: it ends the run if the failure would only repeat, and otherwise restarts it.

Everything is kept in .keepstep/runs/TIME-NAME. `keepstep runs` lists the runs,
and `keepstep why last` explains the last one again. The exit status is that of
the first rank that failed (128+N for signal N), and 0 only if all ended well.
Ctrl-C ends the ranks (SIGTERM, a grace period, SIGKILL); a second Ctrl-C kills
them at once.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    run = add_verb(
        verbs,
        "run",
        "start, watch and restart a training job",
        DESCRIPTION,
        usage="keepstep run [options] -- COMMAND ...",
    )
    run.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="what every rank runs; without -n, your own launcher or program",
    )
    run.add_argument("-n", "--ranks", type=int, metavar="N", help="start N training ranks and set their variables")
    run.add_argument("--name", metavar="NAME", help="name of the run (default: the script's)")
    run.add_argument("--run-dir", metavar="DIR", help="where to create the run folder (default: .keepstep/runs)")
    run.add_argument(
        "--status-file",
        metavar="FILE",
        help="write the run's exit status there at the end, for batch scripts: srun's status is another one where an"
        " agent was lost",
    )
    run.add_argument("--no-check", action="store_true", help="skip the check of the host and the script at the start")
    run.add_argument(
        "-q", "--quiet", action="store_true", help="do not show what the ranks print (the run folder has it)"
    )
    _add_nodes(run)
    roles = run.add_argument_group("TensorFlow roles")
    roles.add_argument("--chief", action="store_true", help="make the first of the N ranks the chief")
    roles.add_argument(
        "--ps",
        type=int,
        default=0,
        metavar="K",
        help="add K parameter servers (the first of the N ranks is then the chief)",
    )
    roles.add_argument("--evaluator", action="store_true", help="add one evaluator")
    _add_restarts(run)
    _add_notices(run)
    _add_times(run)


def _add_notices(run: Parser) -> None:
    limits = run.add_argument_group("limits, notices and metrics")
    limits.add_argument(
        "--config",
        metavar="FILE",
        help="a keepstep.toml with limits on what is measured, and whom to tell (default: the nearest one, which may"
        " only warn)",
    )
    limits.add_argument(
        "--memory-forecast",
        metavar="FILE.jsonl",
        help="what `keepstep check memory --save` wrote: it is corrected after two steps, and set beside what happened",
    )
    limits.add_argument(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="answer Prometheus at http://ADDRESS:PORT/metrics (default address: 127.0.0.1)",
    )
    limits.add_argument(
        "--test-notice", action="store_true", help="send one notice to those whom the configuration names, and exit"
    )


def _add_nodes(run: Parser) -> None:
    nodes = run.add_argument_group(
        "several nodes", "one agent on each starts and watches its ranks, and one agent leads"
    )
    nodes.add_argument("--per-node", type=int, metavar="M", help="start M training ranks on each node")
    nodes.add_argument(
        "--nodes",
        metavar="N|MIN:MAX",
        help="how many nodes; with MIN:MAX, the run continues with fewer if one is lost and there is no spare",
    )
    nodes.add_argument(
        "--spare-nodes",
        type=int,
        metavar="K",
        help="keep K spare nodes, which replace nodes that are lost: with --meet, start K more agents, and on"
        " Kubernetes K more pods (default: none);"
        " with --on ray, if they are free (default: 1)",
    )
    nodes.add_argument("--node-rank", type=int, metavar="I", help="which of them this is (0 leads)")
    nodes.add_argument("--meet", metavar="HOST:PORT", help="where node 0 listens")
    nodes.add_argument("--hosts", metavar="A,B,C", help="start the agents on these hosts by ssh")
    nodes.add_argument(
        "--remote", default="keepstep", metavar="COMMAND", help="with --hosts: the keepstep command on those hosts"
    )
    nodes.add_argument(
        "--on",
        metavar="ENGINE",
        help="kubernetes, meet, ray, slurm or ssh (default: by the environment and the other options)",
    )
    nodes.add_argument(
        "--resources",
        metavar="JSON",
        help="with --on ray: what to take on each node (default: one CPU per rank, and one GPU where nodes have them)",
    )
    nodes.add_argument(
        "--detach",
        action="store_true",
        help="with --on ray: lead the run from a Ray actor, which Ray restarts on another node if its node is lost",
    )
    nodes.add_argument(
        "--wait", type=float, metavar="SECONDS", help="how long to wait for the nodes at the start (600)"
    )
    nodes.add_argument(
        "--wait-for-more",
        type=float,
        metavar="SECONDS",
        help="with --nodes MIN:MAX: how long to wait at the start for more nodes than MIN (5; with --on ray: 20)",
    )
    nodes.add_argument(
        "--requeue",
        action="store_true",
        help="with Slurm: if SIGTERM ends the run before it is done, put the job back into the queue (scontrol"
        " requeue)",
    )


def _add_restarts(run: Parser) -> None:
    back = run.add_argument_group("restarts")
    back.add_argument(
        "--max-attempts",
        type=int,
        metavar="N",
        help="give up after N attempts without progress (default: 4 with -n; without -n, your command is not"
        " restarted)",
    )
    back.add_argument(
        "--remedy",
        choices=("off", "safe", "ask", "all"),
        default="safe",
        help="what may be changed for the next attempt: nothing (off), what does not change results (safe, the"
        " default), what you agree to (ask), anything (all)",
    )
    back.add_argument(
        "--max-lost-work",
        default="10m",
        metavar="TIME",
        help="do not restart if the script would start over and lose more than this much work, or overwrite the"
        " checkpoints of that much work: 90s, 10m, 2h (default: 10m), or off to restart anyway",
    )
    back.add_argument(
        "--no-spares",
        action="store_true",
        help="keep no warm spare processes (they cost memory and speed up a restart)",
    )
    back.add_argument(
        "--on-failure",
        metavar="COMMAND|URL",
        help="send each failure's report as JSON to COMMAND's standard input, or to URL by POST",
    )


def _add_times(run: Parser) -> None:
    times = run.add_argument_group("times", "keepstep learns these; setting them is rarely needed")
    times.add_argument(
        "--hang-timeout",
        type=float,
        metavar="SECONDS",
        help="how long steps may make no progress before keepstep looks at stacks",
    )
    times.add_argument(
        "--suspected-wait",
        type=float,
        metavar="SECONDS",
        help="how long a hang that is only suspected may go on before a restart (default: as long as a restart would"
        " cost)",
    )
    times.add_argument(
        "--grace", type=float, default=10.0, metavar="SECONDS", help="time between SIGTERM and SIGKILL (default: 10)"
    )
