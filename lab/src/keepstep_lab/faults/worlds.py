# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree about who and how many they are, or never form one world."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from . import Fault
from ._script import ScriptMistake

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class AbsentPeer(Fault):
    """Some ranks are never started; the others wait for them."""

    def prepare(self, run: Run) -> None:
        run.absent |= set(run.scenario.strike_ranks or (0,))

    def proof(self, run: Run) -> str:
        started = run.absent & (set(run.processes) | set(run.rank_pids()))
        if started or not run.absent:
            raise run.unproven(f"ranks {sorted(started)} were started")
        return f"ranks {sorted(run.absent)} have no process, ranks {sorted(run.processes)} were started"


class Alone(Fault):
    """Every process was told that it is the only one of its job."""

    WORDS = re.compile(r"world size 1\b|\b1 processes|\b1 replicas")

    def prepare(self, run: Run) -> None:
        for rank, env in enumerate(run.env):
            address = f"{run.address_of(rank)}:{run.ports[rank]}"
            if run.scenario.framework == "torch":
                env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(run.ports[rank])}
            elif run.scenario.framework == "jax":
                env |= {"PROCESS_ID": "0", "NUM_PROCESSES": "1", "COORDINATOR_ADDRESS": address}
            else:
                task = {"type": "worker", "index": 0}
                env["TF_CONFIG"] = json.dumps({"cluster": {"worker": [address]}, "task": task})

    def proof(self, run: Run) -> str:
        with_others = [rank for rank in range(run.scenario.ranks) if not self.WORDS.search(run.log_of(rank))]
        if with_others:
            raise run.unproven(f"ranks {with_others} did not say that they are alone")
        return f"each of {run.scenario.ranks} processes said that it is the only one"


class NeverJoins(ScriptMistake):
    """The launcher means one world of all ranks; the script forms a world of one in each."""

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

    def edits_of(self, run: Run) -> tuple[tuple[str, str], ...]:
        return (self.EDITS[run.scenario.framework],)


class LargerWorld(Fault):
    """Every rank waits for a world one rank larger than was started."""

    VARIABLE = "WORLD_SIZE"

    def prepare(self, run: Run) -> None:
        for env in run.env:
            env[self.VARIABLE] = str(run.scenario.ranks + 1)

    def proof(self, run: Run) -> str:
        told = {env[self.VARIABLE] for env in run.env}
        if told != {str(len(run.processes) + 1)}:
            raise run.unproven(f"{self.VARIABLE} is {told} and {len(run.processes)} were started")
        return f"{self.VARIABLE} is {told.pop()}, {len(run.processes)} processes were started"


class LargerNumProcesses(LargerWorld):
    """Every process waits for one more process than was started (JAX)."""

    VARIABLE = "NUM_PROCESSES"


class SameRank(Fault):
    """Two processes were given the same rank."""

    VARIABLE = "RANK"

    def prepare(self, run: Run) -> None:
        run.env[2][self.VARIABLE] = "1"

    def proof(self, run: Run) -> str:
        ranks = [env[self.VARIABLE] for env in run.env]
        if len(set(ranks)) == len(ranks):
            raise run.unproven(f"the ranks are {ranks}")
        return f"the processes were given the ranks {', '.join(ranks)}"


class SameProcessId(SameRank):
    """Two processes were given the same process id (JAX)."""

    VARIABLE = "PROCESS_ID"


class NoRankEnv(Fault):
    """The launcher did not tell the processes who they are: no RANK, TF_CONFIG or PROCESS_ID."""

    NAMES = {"torch": "RANK", "tensorflow": "TF_CONFIG", "jax": "PROCESS_ID"}

    def prepare(self, run: Run) -> None:
        for env in run.env:
            del env[self.NAMES[run.scenario.framework]]

    def proof(self, run: Run) -> str:
        name = self.NAMES[run.scenario.framework]
        if any(name in env for env in run.env):
            raise run.unproven(f"{name} was set")
        return f"no process was given {name}"


class NoMasterAddr(NoRankEnv):
    """The launcher did not say where rank 0 is: no MASTER_ADDR."""

    NAMES = {"torch": "MASTER_ADDR"}


class HalfMesh(ScriptMistake):
    """The script makes its mesh of every second device; the others are never used (JAX)."""

    edits = (("mesh = Mesh(np.array(jax.devices()), ", "mesh = Mesh(np.array(jax.devices()[::2]), "),)

    def proof(self, run: Run) -> str:
        return f"{super().proof(run)}; {run.proof_in_log(0, 'training finished')}"


class LocalMesh(ScriptMistake):
    """The processes form one world, and each makes its mesh of its own devices alone (JAX)."""

    edits = (("mesh = Mesh(np.array(jax.devices()), ", "mesh = Mesh(np.array(jax.local_devices()), "),)
