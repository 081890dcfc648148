# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check collectives``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Try the framework's own collectives with numbers whose answers are known, and
say which ones are wrong, on which ranks, and how fast they are. Started alone,
it starts some ranks on this host. Started the way the job is, every process is
one rank, and rank 0 prints the report:

  keepstep check collectives                        two ranks here
  keepstep check collectives --ranks 4 --framework torch
  keepstep check collectives --framework jax --ranks 1 --devices 24
  torchrun --no-python keepstep check collectives   as the job is started
  srun keepstep check collectives --framework jax

It takes the job's devices and up to two minutes: not beside a training.
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    made = add_verb(verbs, "check collectives", "find wrong and slow collectives", DESCRIPTION)
    made.add_argument(
        "--framework",
        choices=("torch", "tensorflow", "jax"),
        help="whose collectives (default: by the launcher's variables, or the only one that is installed)",
    )
    made.add_argument("--backend", default="", metavar="NAME", help="nccl, gloo, ring ... (default: the framework's)")
    made.add_argument("--ranks", type=int, default=2, metavar="N", help="alone: how many to start here (default: 2)")
    made.add_argument(
        "--devices", type=int, default=1, metavar="N", help="CPU devices of each JAX process (default: 1)"
    )
    made.add_argument(
        "--dtypes", default="float32,bfloat16", metavar="A,B", help="types to try (default: float32,bfloat16)"
    )
    made.add_argument("--largest", type=int, default=16, metavar="MIB", help="largest message in MiB (default: 16)")
    made.add_argument("--rounds", type=int, default=8, metavar="N", help="how often each is tried (default: 8)")
    made.add_argument("--limit", type=float, default=110.0, metavar="SECONDS", help="end it after that (default: 110)")
    made.add_argument(
        "--bytes-per-step", type=float, default=0.0, metavar="N", help="what is summed in a step, as 2e9: say its time"
    )
    made.add_argument(
        "--step-time", type=float, default=0.0, metavar="SECONDS", help="with that: its share of such a step"
    )
    made.add_argument("--meet", metavar="HOST:PORT", help="where rank 0 listens (default: from the launcher)")
    made.add_argument("--json", action="store_true", help="print keepstep.report/1 as JSON")
