"""Start one job: as plain processes, under a shell, or under torchrun; keep each rank's raw output apart."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from lab import faults
from lab.scenario import Scenario

ROOT = Path(__file__).resolve().parents[1]
INHERITED = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")


@dataclass
class Run:
    """One run of a scenario: what its ranks will get, then what they are. Faults edit and strike it."""

    scenario: Scenario
    work: Path
    ports: list[int]
    env: list[dict[str, str]] = field(default_factory=list)
    args: list[list[str]] = field(default_factory=list)
    logs: Path = Path()
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    delay: dict[int, float] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    absent: set[int] = field(default_factory=set)
    prefix: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def wait_for(self, text: str, rank: int | None = None, limit: float = 90.0) -> bool:
        """Wait until some log (or that of `rank`) holds `text`."""
        end = time.monotonic() + limit
        pattern = "**/*.log" if rank is None else f"rank{rank}.log"
        while time.monotonic() < end and not self.over.is_set():
            if any(text in path.read_text(errors="replace") for path in self.logs.glob(pattern)):
                return True
            time.sleep(0.05)
        return False

    def pid_of(self, rank: int) -> int:
        """The process id of the Python of `rank`, below whatever launched it."""
        for pid in self._descendants():
            with contextlib.suppress(OSError):
                environ = set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                names = {f"LAB_TASK={rank}".encode(), f"RANK={rank}".encode()}
                if names & environ and b"lab/jobs/" in command and not command.startswith(b"bash"):
                    return pid
        raise LookupError(f"rank {rank} has no process")

    def children_of(self, pid: int) -> list[int]:
        """The direct children of `pid`."""
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            return [int(word) for word in text.split()]
        return []

    def _descendants(self) -> list[int]:
        found = [process.pid for process in self.processes]
        for pid in found:
            found.extend(self.children_of(pid))
        return found


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]


def launch(scenario: Scenario, logs: Path) -> list[int | None]:
    """Run `scenario`, its raw logs under `logs`; each process's exit status (None: alive at the limit)."""
    with tempfile.TemporaryDirectory(prefix="keepstep-lab-") as work:
        run = Run(scenario, Path(work), free_ports(scenario.ranks + 2), logs=logs)
        run.env = [_environment(run, rank) for rank in range(scenario.ranks)]
        run.order = list(range(scenario.ranks))
        run.args = [list(scenario.args) for _ in range(scenario.ranks)]
        with run.stack:
            return _launch(run)


def _launch(run: Run) -> list[int | None]:
    module = faults.load(run.scenario.fault) if run.scenario.fault else None
    if module and hasattr(module, "prepare"):
        module.prepare(run)
    end = time.monotonic() + run.scenario.limit
    try:
        _start(run)
        if module and hasattr(module, "outside"):
            threading.Thread(target=module.outside, args=(run,), daemon=True).start()
        for process in run.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
        return [process.poll() for process in run.processes]
    finally:
        run.over.set()
        for process in run.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(run: Run) -> None:
    scenario = run.scenario
    if scenario.launcher.startswith("torchrun"):
        _spawn(run, _torchrun(run), run.env[0], run.logs / "terminal.log")
        return
    for rank in run.order:
        if rank not in run.absent:
            time.sleep(run.delay.get(rank, 0.0))
            start_rank(run, rank)


def start_rank(run: Run, rank: int) -> None:
    """Start the process of one rank, its output at the end of the rank's log."""
    command = [sys.executable, str(ROOT / run.scenario.job), *run.args[rank]]
    if run.scenario.launcher == "shell":
        # as most launch scripts do: the shell waits, and reports a death by signal in the log
        path = run.work / f"launch_{rank}.sh"
        path.write_text(f"#!/bin/bash\n{shlex.join(command)}\nexit $?\n")
        command = ["bash", str(path)]
    _spawn(run, command, run.env[rank], run.logs / f"rank{rank}.log")


def _torchrun(run: Run) -> list[str]:
    scenario = run.scenario
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={scenario.ranks}"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{run.ports[0]}", "--rdzv-id=job17"]
    if scenario.launcher == "torchrun":
        command += [f"--log-dir={run.logs / 'torchrun'}", "--redirects=3"]
    elif scenario.launcher == "torchrun-tee":
        command += [f"--log-dir={run.work / 'torchrun'}", "--tee=3"]
    return [*command, str(ROOT / scenario.job), *run.args[0]]


def _spawn(run: Run, command: list[str], env: dict[str, str], log: Path) -> None:
    limits = run.scenario.limits

    def inside() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    with log.open("ab") as out:
        process = subprocess.Popen(
            [*run.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=inside,
        )
    run.processes.append(process)


def _environment(run: Run, rank: int) -> dict[str, str]:
    scenario = run.scenario
    env = {key: os.environ[key] for key in INHERITED if key in os.environ}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LAB_WORK": str(run.work), "LAB_TASK": str(rank)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    world = str(scenario.ranks)
    if scenario.framework == "tensorflow":
        env |= {"TF_CONFIG": json.dumps(tf_config(run, rank)), "CUDA_VISIBLE_DEVICES": "-1"}
    elif scenario.framework == "jax":
        env |= {"COORDINATOR_ADDRESS": f"127.0.0.1:{run.ports[0]}", "NUM_PROCESSES": world}
        env |= {"PROCESS_ID": str(rank), "JAX_PLATFORMS": "cpu"}
    elif not scenario.launcher.startswith("torchrun"):
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(run.ports[0])}
        env |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world}
    else:
        del env["LAB_TASK"]
    if scenario.fault:
        env["KEEPSTEP_LAB_FAULT"] = scenario.fault
        env["KEEPSTEP_LAB_STEP"] = str(scenario.strike_step)
        if scenario.strike_ranks is not None:
            env["KEEPSTEP_LAB_RANK"] = ",".join(map(str, scenario.strike_ranks))
    return env | scenario.env


def tf_config(run: Run, rank: int) -> dict[str, object]:
    """The TF_CONFIG of `rank`: all workers, or, for tf_ps, the chief, workers and parameter servers."""
    addresses = [f"127.0.0.1:{port}" for port in run.ports[: run.scenario.ranks]]
    roles = run.scenario.roles or ("worker",) * run.scenario.ranks
    cluster: dict[str, list[str]] = {}
    for role, address in zip(roles, addresses, strict=True):
        cluster.setdefault(role, []).append(address)
    return {"cluster": cluster, "task": {"type": roles[rank], "index": roles[:rank].count(roles[rank])}}
