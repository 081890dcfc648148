# SPDX-License-Identifier: Apache-2.0
"""The launcher means one world of all ranks; the script forms a world of one in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

EDITS = {
    "torch": (
        (
            '    dist.init_process_group("nccl" if options.cuda else "gloo", '
            "timeout=datetime.timedelta(seconds=options.timeout))\n"
        ),
        '    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())\n',
    ),
    "tensorflow": (
        "    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)\n",
        "    strategy = tf.distribute.MirroredStrategy()\n",
    ),
    "jax": (
        "    jax.distributed.initialize(*where, **{name: limits[name] for name in limits if name in known})\n",
        "    print(len(limits), len(known))\n",
    ),
}


def prepare(run: Run) -> None:
    _script.edit(run, *EDITS[run.scenario.framework])


def proof(run: Run) -> str:
    return _script.proof(run, EDITS[run.scenario.framework][1].strip())
