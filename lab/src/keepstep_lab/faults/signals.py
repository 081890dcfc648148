# SPDX-License-Identifier: Apache-2.0
"""Ranks that are ended, stopped or started again from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class KillRank(Fault):
    """SIGKILL from outside to one rank, once it has trained a while."""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            pid = run.pid_of(run.scenario.struck)
            run.strike(f"SIGKILL to rank {run.scenario.struck}")
            os.kill(pid, signal.SIGKILL)

    def proof(self, run: Run) -> str:
        return run.proof_of_signal(run.scenario.struck, signal.SIGKILL)


class StopRank(Fault):
    """SIGSTOP from outside to one rank, as a debugger or a frozen container does."""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            os.kill(run.pid_of(run.scenario.struck), signal.SIGSTOP)
            run.strike(f"SIGSTOP to rank {run.scenario.struck}")

    def proof(self, run: Run) -> str:
        state = Path(f"/proc/{run.pid_of(run.scenario.struck)}/stat").read_text().rpartition(")")[2].split()[0]
        if state != "T":
            raise run.unproven(f"rank {run.scenario.struck} is not stopped: its state is {state}")
        return f"rank {run.scenario.struck} is in state T (stopped)"


class RestartRank(Fault):
    """One rank dies and something starts it again, into the cluster of the others, which know the old one."""

    def outside(self, run: Run) -> None:
        rank = run.scenario.struck
        if run.wait_for(run.scenario.mark):
            run.strike(f"SIGKILL to rank {rank}")
            os.kill(run.pid_of(rank), signal.SIGKILL)
            time.sleep(0.2)
            run.start_rank(rank)
            run.strike(f"rank {rank} was started again")

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        if (rank, -signal.SIGKILL) not in run.ended:
            raise run.unproven(f"rank {rank} was not started again after SIGKILL")
        return f"rank {rank} was ended by SIGKILL and started again as process {run.processes[rank].pid}"


class SecondLife(Fault):
    """One rank is killed, the whole job is started again into the same logs, and there it fails for another reason."""

    GRACE_S = 8.0
    """How long whatever restarts the job lets the others fail by themselves."""
    MARK = "second-life"

    def at(self, step: int, rank: int) -> None:
        if (Path(os.environ["KEEPSTEP_LAB_WORK"]) / self.MARK).exists():
            {"x": 0}["label"]

    def outside(self, run: Run) -> None:
        rank = run.scenario.struck
        if not run.wait_for(run.scenario.mark, rank=rank):
            return
        run.restarting = True
        run.strike(f"SIGKILL to rank {rank}")
        os.kill(run.pid_of(rank), signal.SIGKILL)
        run.until(lambda: all(process.poll() is not None for process in run.processes.values()), self.GRACE_S)
        for process in run.processes.values():
            if process.poll() is None:
                process.kill()
        (run.work / self.MARK).touch()
        for each in run.order:
            run.start_rank(each)
        run.strike("the whole job was started again")
        run.restarting = False

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        if (rank, -signal.SIGKILL) not in run.ended or len(run.ended) != run.scenario.ranks:
            raise run.unproven("the job was not started again after SIGKILL")
        return f"rank {rank} was ended by SIGKILL; in the second life {run.proof_in_log(rank, 'KeyError')}"


class OldProcess(Fault):
    """The job is ended and started again, but the old process of rank 0 is still there and holds the port."""

    def outside(self, run: Run) -> None:
        if not run.wait_for(run.scenario.mark, rank=0):
            return
        old = run.processes[0]
        os.kill(run.pid_of(0), signal.SIGSTOP)  # as one in an uninterruptible read: no signal ends it
        run.stack.callback(self._end, old)
        (run.work / "old-pid").write_text(str(old.pid))
        run.restarting = True
        run.strike("the job was ended, but rank 0 did not react")
        for rank in run.order:
            if rank:
                os.killpg(run.processes[rank].pid, signal.SIGKILL)
        del run.processes[0]
        for rank in run.order:
            run.start_rank(rank)
        run.strike("the job was started again")
        run.restarting = False

    def _end(self, old: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(old.pid, signal.SIGKILL)
        old.wait()

    def proof(self, run: Run) -> str:
        path = run.work / "old-pid"
        if not path.exists():
            raise run.unproven("the job was never started again")
        old = int(path.read_text())
        state = Path(f"/proc/{old}/stat").read_text().rpartition(")")[2].split()[0]
        if state != "T" or old == run.processes[0].pid:
            raise run.unproven(f"the old process of rank 0 is in state {state}")
        return f"the old process {old} of rank 0 is there, the new one is {run.processes[0].pid}"


class Preempt(Fault):
    """SIGTERM to what launched the job, as a scheduler sends when it takes the machine back."""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            alive = [rank for rank, process in run.processes.items() if process.poll() is None]
            for rank in alive:
                run.processes[rank].send_signal(signal.SIGTERM)
            run.strike(f"SIGTERM was sent to {len(alive)} living processes")

    def proof(self, run: Run) -> str:
        told = run.proof_that_it_struck()
        if told.startswith("SIGTERM was sent to 0"):
            raise run.unproven(told)
        return told


class PreemptGroup(Fault):
    """SIGTERM to every process of the job at once, as a scheduler that ends a whole node does."""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            pids = run.rank_pids()
            for pid in pids.values():
                os.kill(pid, signal.SIGTERM)
            run.strike(f"SIGTERM was sent to the processes of ranks {sorted(pids)}")

    def proof(self, run: Run) -> str:
        ends = {rank: run.status_of(rank) for rank in run.processes}
        if any(end not in (-signal.SIGTERM, 128 + signal.SIGTERM) for end in ends.values()):
            raise run.unproven(f"the ranks ended with {ends}")
        return f"{run.proof_that_it_struck()}; the ranks ended with {ends}"


class PreemptWithGrace(Preempt):
    """SIGTERM to every rank, and SIGKILL to those still there three seconds later, as Kubernetes and Slurm do."""

    GRACE = 3.0

    def outside(self, run: Run) -> None:
        super().outside(run)
        if run.strikes():
            time.sleep(self.GRACE)
            for process in run.processes.values():
                if process.poll() is None:
                    process.kill()

    def proof(self, run: Run) -> str:
        ends = {rank: process.poll() for rank, process in run.processes.items()}
        return f"{super().proof(run)}; the ranks ended with {ends}"
