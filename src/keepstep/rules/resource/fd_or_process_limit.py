# SPDX-License-Identifier: Apache-2.0
"""RES006: a limit on files, processes, threads or locked memory was reached."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, ExceptionRaised, Findings, Fix, Found, LimitReached, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who


@rule(
    id="RES006",
    cause=Cause.RESOURCE_FD_OR_PROCESS_LIMIT,
    needs=(LimitReached, ExceptionRaised),
    explains=(
        *OF_A_DEAD_RANK,
        Cause.RESOURCE_SHM,
        Cause.DATA_LOADER_WORKER_KILLED,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_NATIVE_CRASH,
    ),
)
def fd_or_process_limit(seen: EvidenceSet) -> Findings:
    """A system limit on open files, processes, threads or locked memory was reached.

    ## What it looks like
    `[Errno 24] Too many open files`, `received 0 items of ancdata`, `can't start new thread`, `libgomp:
    Thread creation failed`, OpenBLAS `pthread_create failed`, `fork: Resource temporarily unavailable`.

    ## Why it happens
    Every tensor that a DataLoader worker passes on uses a file descriptor; every rank and worker starts as many threads
    as there are cores; the limits (`ulimit -n`, `ulimit -u`, the pids cgroup) were made for desktops.

    ## How we know
    The system refused with EMFILE, or refused to start a thread or process.

    ## What to do
    Raise the limit before the launcher starts, or use fewer descriptors, workers and threads.

    ## When this is wrong
    A program that leaks descriptors will reach any limit. Count them while it runs.
    """
    reached = once_a_line(e for e in seen.all(LimitReached) if not seen.survived(e))
    refused = tuple(e for e in seen.all(ExceptionRaised) if _not_started(e.fact) and not seen.survived(e))
    if not reached and not refused:
        return
    limit = reached[0].fact.limit if reached else "processes or threads"
    files = "file" in limit
    yield Found(
        title=f"{who((*reached, *refused))} reached the limit on {limit}",
        because=f"the system refused one more: the limit on {limit} was reached",
        evidence=(*reached, *refused),
        fixes=(
            Fix(
                do="raise the limit in the shell that starts the run",
                command="ulimit -n 65536" if files else "ulimit -u unlimited",
            ),
            Fix(
                do="share tensors by file instead of by file descriptor",
                code="torch.multiprocessing.set_sharing_strategy('file_system')",
            )
            if files
            else Fix(do="start fewer threads per process", command="export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"),
            Fix(do="use fewer loader workers"),
        ),
    )


def _not_started(fact: ExceptionRaised) -> bool:
    """EAGAIN while starting a process; sockets and locks raise it for other reasons."""
    if "[Errno 11]" not in fact.message or not fact.type.endswith(("BlockingIOError", "OSError")):
        return False
    if any(f.function in _STARTS for f in fact.frames):
        return True
    last = fact.frames[-1].file if fact.frames else None
    return last is not None and last.replace("\\", "/").endswith(_STARTERS)


_STARTS = ("_launch", "_execute_child", "_fork_exec", "fork_exec", "fork", "spawnv_passfds")
_STARTERS = (
    "torch/utils/data/dataloader.py",
    "multiprocessing/process.py",
    "multiprocessing/context.py",
    "subprocess.py",
)
