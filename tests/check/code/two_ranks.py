# SPDX-License-Identifier: Apache-2.0
"""Runs labelled programs on two ranks and prints, as one line of JSON each, what happened.

`python tests/check/code/two_ranks.py PROGRAM...`. PyTorch is imported once; each rank is a fork of this process,
because importing it takes longer than the programs do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANKS = 2
AT_ONCE = 5
IDLE_S = 40.0
"""A rank whose main thread has not run for this long hangs. Under a load of 60 on two cores, 15 s were too few."""
LONGEST_S = 240.0
AFTER_FAILURE_S = 10.0


@dataclass
class Seen:
    """What one rank did."""

    weights: dict[str, str] = field(default_factory=dict)
    batches: list[str] = field(default_factory=list)
    steps: int = 0
    peak_mb: int = 0


@dataclass
class Happened:
    program: str
    end: str
    codes: dict[int, int]
    ranks: dict[int, Seen]
    output: str


def digest(tensors: Iterable[Any]) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        total.update(local.detach().cpu().numpy().tobytes())
    return total.hexdigest()[:12]


def watch(seen: Seen) -> None:
    """Notes the weights after each optimizer's step, and what each pass over a loader gave."""
    import torch

    optimizers: list[Any] = []
    first_init = torch.optim.Optimizer.__init__
    first_iter = torch.utils.data.DataLoader.__iter__

    def after(optimizer: Any, *_: Any) -> None:
        seen.steps += 1
        values = [value for group in optimizer.param_groups for value in group["params"]]
        seen.weights[str(optimizers.index(optimizer))] = digest(values)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        first_init(self, *args, **kwargs)
        optimizers.append(self)
        self.register_step_post_hook(after)

    def iterate(self: Any) -> Iterator[Any]:
        place = len(seen.batches)
        seen.batches.append("")
        for batch in first_iter(self):
            parts = batch if isinstance(batch, (list, tuple)) else [batch]
            seen.batches[place] += digest(part for part in parts if torch.is_tensor(part))
            yield batch

    torch.optim.Optimizer.__init__ = init
    torch.utils.data.DataLoader.__iter__ = iterate


def be_rank(program: Path, rank: int, port: int, folder: Path) -> int:
    """Runs the program in this process, as a launcher would have started it."""
    import torch

    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(RANKS),
        LOCAL_WORLD_SIZE=str(RANKS),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True",
        TMPDIR=str(folder),
    )
    tempfile.tempdir = None
    work = folder / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    torch.set_num_threads(1)
    sys.argv = [str(program)]
    sys.path.insert(0, str(program.parent))
    seen = Seen()
    watch(seen)
    code = 0
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    seen.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    (folder / f"rank{rank}.json").write_text(json.dumps(dataclasses.asdict(seen)))
    return code


def host_store(port: int) -> int:
    """The store in which ranks meet; like torchrun's, it outlives each of them."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    signal.pause()
    return int(store.port)


def fork(call: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = call()
        finally:
            os._exit(code)
    return child


def processor_s(pid: int) -> float:
    """Processor time of the main thread, which grows while the thread runs or wants to, however busy the machine is.

    Other threads do not count: those of the process group wake up now and then while the rank hangs.
    """
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    wants = time.monotonic() if fields[0] in "RD" else 0.0
    return wants + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_all(pids: list[int]) -> None:
    victims = list(pids)
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        victims += [int(child) for child in children.read_text().split()] if children.exists() else []
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def wait(pids: list[int]) -> tuple[str, dict[int, int]]:
    """How the ranks ended: ok, error, or hang for those that had to be killed."""
    codes: dict[int, int] = {}
    began = moved = time.monotonic()
    failed: float | None = None
    last = 0.0
    while len(codes) < len(pids):
        time.sleep(0.1)
        for rank, pid in enumerate(pids):
            if rank not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(ended[1])
                failed = failed or (time.monotonic() if codes[rank] else None)
        alive = [pid for rank, pid in enumerate(pids) if rank not in codes]
        now = time.monotonic()
        used = sum(processor_s(pid) for pid in alive)
        if used > last + 0.01 or used < last:
            last, moved = used, now
        late = failed is not None and now - failed > AFTER_FAILURE_S
        if alive and (late or now - moved > IDLE_S or now - began > LONGEST_S):
            end_all(alive)
            return "error" if failed is not None else "hang", codes
    return "error" if any(codes.values()) else "ok", codes


def run(program: Path) -> Happened:
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        store = fork(lambda: host_store(port))
        pids = [fork(lambda rank=rank: be_rank(program, rank, port, folder)) for rank in range(RANKS)]
        end, codes = wait(pids)
        end_all([store])
        notes = {rank: folder / f"rank{rank}.json" for rank in range(RANKS)}
        ranks = {rank: Seen(**json.loads(path.read_text())) for rank, path in notes.items() if path.exists()}
        log = folder / "log"
        output = log.read_text(errors="replace") if log.exists() else ""
    return Happened(str(program), end, codes, ranks, output)


def main(programs: list[Path]) -> int:
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.nn.parallel
    import torch.utils.data  # noqa: F401

    def some(first: int) -> int:
        for program in programs[first::AT_ONCE]:
            os.write(1, (json.dumps(dataclasses.asdict(run(program))) + "\n").encode())
        return 0

    children = [fork(lambda first=first: some(first)) for first in range(AT_ONCE)]
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main([Path(argument).resolve() for argument in sys.argv[1:]]))
