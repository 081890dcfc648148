# SPDX-License-Identifier: Apache-2.0
"""Carry a scenario out: start the job as a launcher would, let the fault strike, wait for the end."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.sources.host.ports import free_ports
from keepstep_lab import data, faults, guarded, home, hosts, supervised, sweeper
from keepstep_lab.run import PAUSE_S, Run
from keepstep_lab.scenario import Scenario

HERE = Path(__file__).parent
INHERITED = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")
CLONE_NEWNS = 0x00020000


@contextlib.contextmanager
def prepared(
    scenario: Scenario, python: str = sys.executable, script: Path | None = None, *, watch: str = ""
) -> Iterator[Run]:
    """A run with all that its ranks need, not yet started. Nothing of it is left afterwards, whatever happens.

    ``script``: the user's own training instead of the scenario's job.
    """
    token = os.urandom(6).hex()
    work = Path(tempfile.mkdtemp(prefix="keepstep-lab-"))
    with swept(token, work), contextlib.ExitStack() as stack:
        stack.enter_context(ending_on_sigterm())
        _mounts_of_our_own()
        run = Run(scenario, token, work, free_ports(scenario.ranks + 2), python, spawn=_start_rank, watch=watch)
        if scenario.launcher.startswith("home"):
            run.told_status = home.status_of
        elif watch == "run":
            run.told_status = supervised.status_of
        for folder in (run.folder, run.app, run.data):
            folder.mkdir()
        _copy_app(run, script)
        if scenario.hosts:
            run.hosts = hosts.Hosts(scenario.hosts, work, {**os.environ, sweeper.VARIABLE: token})
            stack.callback(run.hosts.close)
        run.env = [_environment(run, rank) for rank in range(scenario.ranks)]
        run.given = [dict(env) for env in run.env]
        run.args = [list(scenario.args) for _ in range(scenario.ranks)]
        run.prefix = [run.hosts.inside(run.host_of(rank)) if run.hosts else [] for rank in range(scenario.ranks)]
        run.order = list(range(scenario.ranks))
        stack.enter_context(run.stack)
        stack.callback(_end, run)
        data.write(scenario.framework, run.data, shards=scenario.ranks)
        fault = faults.load(scenario.fault) if scenario.fault else None
        if fault and hasattr(fault, "prepare"):
            fault.prepare(run)
            if faults.hooks(fault) <= {"prepare", "proof"}:
                run.strike(f"{scenario.fault} was prepared")
        yield run


def carry_out(run: Run) -> None:
    """Start the ranks and wait until they have ended, the hang can be looked at, or the limit is reached."""
    fault = faults.load(run.scenario.fault) if run.scenario.fault else None
    end = time.monotonic() + run.scenario.limit
    if run.watch == "run":
        command = supervised.command(run)
        run.env[0] = supervised.environment(run)
        _spawn(run, 0, command, run.folder / "terminal.log", limits={})
    elif run.scenario.launcher.startswith("torchrun"):
        _spawn(run, 0, _torchrun(run), run.folder / "terminal.log")
    elif run.scenario.launcher.startswith("home"):
        _spawn(run, 0, home.command(run), run.folder / home.LOG)
    else:
        for rank in run.order:
            if rank not in run.absent:
                run.over.wait(run.delay.get(rank, 0.0))
                run.start_rank(rank)
    striker = None
    if fault and hasattr(fault, "outside"):
        striker = threading.Thread(target=_outside, args=(fault.outside, run), daemon=True)
        striker.start()
    while time.monotonic() < end and not _settled(run, striker):
        time.sleep(PAUSE_S)


def _outside(act: Callable[[Run], None], run: Run) -> None:
    try:
        act(run)
    except Exception as error:
        (run.work / "outside-failed").write_text(f"{type(error).__name__}: {error}")


def _settled(run: Run, striker: threading.Thread | None) -> bool:
    if all(process.poll() is not None for process in run.processes.values()):
        # a fault that starts a rank again is still at work
        return striker is None or not striker.is_alive() or not (run.restarting or _may_start_again(run))
    if _coordinator_gone(run) or _given_up(run):
        return True
    if run.watch == "run" and run.scenario.hang:
        if not run.scenario.healthy:
            return supervised.told_at(run) is not None
        strikes = run.strikes()
        return bool(strikes) and time.time() - strikes[-1][0] >= supervised.LONG_PAUSE_S
    if not run.scenario.hang or (striker is not None and striker.is_alive()):
        return False
    if run.watch == "guard" and not guarded.has_spoken(run):
        return False
    strikes = run.strikes()
    return bool(strikes) and time.time() - strikes[-1][0] >= run.scenario.settle and _all_started(run)


def _coordinator_gone(run: Run) -> bool:
    """Workers and parameter servers serve forever: when the chief has ended, a moment later all is said."""
    chief = run.processes.get(run.scenario.roles.index("chief")) if "chief" in run.scenario.roles else None
    if chief is None or chief.poll() is None:
        return False
    run.over.wait(2.0)
    return True


def _given_up(run: Run) -> bool:
    """When a rank has failed, the others get a moment to notice it."""
    if run.scenario.grace is None or not any(process.poll() for process in run.processes.values()):
        return False
    run.over.wait(run.scenario.grace)
    return True


def _may_start_again(run: Run) -> bool:
    return time.time() - max((at for at, _ in run.strikes()), default=0.0) < 2.0


def _all_started(run: Run) -> bool:
    """A fault prepared before the start counts from when the ranks had time to meet."""
    fault = faults.load(run.scenario.fault) if run.scenario.fault else None
    if fault is None or hasattr(fault, "at") or hasattr(fault, "outside"):
        return True
    youngest = max((_age(process.pid) for process in run.processes.values()), default=0.0)
    return youngest >= 15.0 + run.scenario.settle


def _age(pid: int) -> float:
    found = read_stat(pid)
    began = found.began() if found is not None else None
    return time.time() - began if began is not None else 0.0


def _end(run: Run) -> None:
    run.over.set()
    for process in run.processes.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _start_rank(run: Run, rank: int) -> None:
    command = [run.python, str(run.app / "train.py"), *run.args[rank]]
    if run.scenario.launcher == "shell":
        # as most launch scripts do: the shell waits, and reports a death by signal in the log
        path = run.work / f"launch_{rank}.sh"
        path.write_text(f"#!/bin/bash\n{shlex.join(command)}\nexit $?\n")
        command = ["bash", str(path)]
    _spawn(run, rank, command, run.folder / f"rank{rank}.log")


def _torchrun(run: Run) -> list[str]:
    scenario = run.scenario
    command = [run.python, "-m", "torch.distributed.run", f"--nproc-per-node={scenario.ranks}"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{run.ports[0]}", "--rdzv-id=job17"]
    if scenario.launcher == "torchrun":
        command += [f"--log-dir={run.folder / 'torchrun'}", "--redirects=3"]
    else:
        command += [f"--log-dir={run.work / 'torchrun'}", "--tee=3"]
    return [*command, str(run.app / "train.py"), *run.args[0]]


def _spawn(run: Run, rank: int, command: list[str], log: Path, limits: Mapping[str, int] | None = None) -> None:
    limits = {"RLIMIT_CORE": 0, **(run.scenario.limits if limits is None else limits)}

    def limit() -> None:
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    with log.open("ab") as out:
        run.processes[rank] = subprocess.Popen(
            [*run.prefix[rank], *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=run.env[rank],
            cwd=run.app,
            start_new_session=True,
            preexec_fn=limit,
        )


def _environment(run: Run, rank: int) -> dict[str, str]:
    scenario = run.scenario
    env = {key: os.environ[key] for key in INHERITED if key in os.environ}
    env |= {"PYTHONPATH": str(run.app), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"KEEPSTEP_LAB_WORK": str(run.work), "KEEPSTEP_LAB_DATA": str(run.data), "KEEPSTEP_LAB_TASK": str(rank)}
    env[sweeper.VARIABLE] = run.token
    env |= _clock(scenario.clocks[rank % len(scenario.clocks)]) if scenario.clocks else {}
    world, meeting = str(scenario.ranks), run.address_of(0)
    if scenario.framework == "tensorflow":
        env |= {"TF_CONFIG": json.dumps(tf_config(run, rank)), "CUDA_VISIBLE_DEVICES": "-1"}
    elif scenario.framework == "jax":
        env |= {"COORDINATOR_ADDRESS": f"{meeting}:{run.ports[0]}", "NUM_PROCESSES": world}
        env |= {"PROCESS_ID": str(rank), "JAX_PLATFORMS": "cpu"}
    elif not scenario.launcher.startswith("torchrun"):
        env |= {"MASTER_ADDR": meeting, "MASTER_PORT": str(run.ports[0])}
        env |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world}
    else:
        del env["KEEPSTEP_LAB_TASK"]
    if run.watch == "guard":
        env |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(guarded.guard_folder(run))}
    if scenario.fault:
        env |= {"KEEPSTEP_LAB_FAULT": scenario.fault, "KEEPSTEP_LAB_STEP": str(scenario.strike_step)}
        if scenario.strike_ranks is not None:
            env["KEEPSTEP_LAB_RANK"] = ",".join(map(str, scenario.strike_ranks))
    return {**env, **scenario.env}


def _clock(off: str) -> dict[str, str]:
    """A clock that is wrong by some seconds (libfaketime, where it is), or in another time zone."""
    if off[0] not in "+-":
        return {"TZ": off}
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    if library is None:
        return {"TZ": f"LAB{'-' if off[0] == '+' else '+'}00:00:{int(off[1:]) % 60:02d}"}
    quiet = {
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }  # its fix lets waiters for the GIL spin
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{off}s", **quiet}


def tf_config(run: Run, rank: int) -> dict[str, object]:
    """The TF_CONFIG of ``rank``: all workers, or the roles that the scenario names."""
    roles = run.scenario.roles or ("worker",) * run.scenario.ranks
    cluster: dict[str, list[str]] = {}
    for each, role in enumerate(roles):
        cluster.setdefault(role, []).append(f"{run.address_of(each)}:{run.ports[each]}")
    return {"cluster": cluster, "task": {"type": roles[rank], "index": roles[:rank].count(roles[rank])}}


def _copy_app(run: Run, script: Path | None) -> None:
    """Jobs and faults run from a folder of their own, as a user's script does."""
    shutil.copytree(HERE / "faults", run.app / "faults", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(script or HERE / "jobs" / f"{run.scenario.job}.py", run.app / "train.py")


@contextlib.contextmanager
def swept(token: str, work: Path) -> Iterator[None]:
    """However the lab ends, the sweeper removes what this run made."""
    command = [sys.executable, "-I", str(HERE / "sweeper.py"), token, str(work)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the lab as Ctrl-C does, and says so at once: the ranks get their grace period first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        os.write(2, b"SIGTERM: the lab ends what it started\n")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _mounts_of_our_own() -> None:
    """Let faults mount what they like: it is seen by this run only, and gone with its processes."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=False, capture_output=True)
