# SPDX-License-Identifier: Apache-2.0
"""Runs labelled programs of TensorFlow and JAX and says whether they misbehave as their `Shows:` line claims.

    python -m tests.check.code.tensorflow_and_jax COD203 COD303_first

runs both programs of every pair whose name has one of these words. `hang 2 ranks jax` means two processes that find
each other over loopback; `2 devices`, one process with two CPU devices; `3 roles`, a chief, a worker and a parameter
server. The frameworks are imported once: each process of a job is a fork of this one. Pairs that need orbax
are skipped where it is not installed.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
SHOWS = re.compile(r"^Shows: (hang|error|differs) (\d) (rank|ranks|devices|roles) (tensorflow|jax)", re.MULTILINE)
SETS_TF_CONFIG = re.compile(r'environ\["TF_CONFIG"\]\s*=')
LONGEST_S = float(os.environ.get("LONGEST_S", "90"))
ROLES = ("chief", "worker", "ps")


@dataclass(frozen=True)
class Claim:
    """What a wrong program says of itself."""

    what: str
    count: int
    unit: str
    framework: str


@dataclass(frozen=True)
class Outcome:
    """What became of a job: one exit status per process that counts, None where it had to be killed."""

    statuses: tuple[int | None, ...]
    printed: tuple[str, ...]
    complaints: tuple[str, ...]

    @property
    def what(self) -> str:
        if any(self.statuses):
            return "error"
        return "hang" if None in self.statuses else "ends"


def side(pair: Path, which: str) -> Path:
    return pair / f"{which}.py" if (pair / f"{which}.py").exists() else pair / which


def source_of(program: Path) -> str:
    files = [program] if program.is_file() else sorted(program.glob("*.py"))
    return "\n".join(file.read_text() for file in files)


def claim_of(pair: Path) -> Claim | None:
    match = SHOWS.search(source_of(side(pair, "wrong")))
    return Claim(match[1], int(match[2]), match[3], match[4]) if match else None


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def config(cluster: dict[str, list[str]], role: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def variables(program: Path, claim: Claim, folder: str) -> list[dict[str, str]]:
    """What a launcher would set, for each process of the job."""
    base = {"WORK_DIR": folder, "MODEL_DIR": folder}
    hosts = [f"127.0.0.1:{port}" for port in free_ports(claim.count)]
    if claim.unit == "devices":
        return [base | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={claim.count}"}]
    if claim.unit == "roles":
        cluster = {role: [host] for role, host in zip(ROLES, hosts, strict=True)}
        return [base | {"TF_CONFIG": config(cluster, role, 0)} for role in ROLES]
    jobs = []
    for index in range(claim.count):
        own = {"WORKER_HOSTS": ",".join(hosts), "WORKER_INDEX": str(index)}
        own |= {"COORDINATOR_ADDRESS": hosts[0], "NUM_PROCESSES": str(claim.count), "PROCESS_ID": str(index)}
        if claim.framework == "tensorflow" and not SETS_TF_CONFIG.search(source_of(program)):
            own["TF_CONFIG"] = config({"worker": hosts}, "worker", index)
        jobs.append(base | own)
    return jobs


def several_cpus(count: int) -> None:
    """Gives this process several CPU devices, which MirroredStrategy() then takes as it takes GPUs."""
    import tensorflow as tf
    from tensorflow.python.distribute import device_util

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    device_util.local_devices_from_num_gpus = lambda _: tuple(f"/device:CPU:{index}" for index in range(count))


def be_process(main: Path, claim: Claim, env: dict[str, str], folder: str, index: int) -> int:
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}{index}", os.O_WRONLY | os.O_CREAT), number)
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = [str(main)]
    sys.path.insert(0, str(main.parent))
    code: Any = 0
    try:
        if claim.unit == "devices" and claim.framework == "tensorflow":
            several_cpus(claim.count)
        runpy.run_path(str(main), run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if not code:
        atexit._run_exitfuncs()
    return code if isinstance(code, int) else int(code is not None)


def fork(call: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = call()
        finally:
            os._exit(code)
    return child


def wait(pids: list[int], counted: int) -> tuple[int | None, ...]:
    """Waits for the processes that count, and kills what is left after some time or soon after a failure."""
    codes: dict[int, int] = {}
    end = time.monotonic() + LONGEST_S
    while len([pid for pid in pids[:counted] if pid in codes]) < counted and time.monotonic() < end:
        time.sleep(0.05)
        for pid in pids:
            if pid not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(ended[1])
                if codes[pid]:
                    end = min(end, time.monotonic() + 5)
    for pid in pids:
        if pid not in codes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return tuple(codes.get(pid) for pid in pids[:counted])


def run(program: Path, claim: Claim) -> Outcome:
    main = (program if program.is_file() else program / "train.py").resolve()
    folder = tempfile.mkdtemp()  # a TemporaryDirectory would be removed by the first fork that ends
    try:
        jobs = variables(program, claim, folder)
        counted = 1 if claim.unit == "roles" else len(jobs)
        pids = [fork(lambda i=i, env=env: be_process(main, claim, env, folder, i)) for i, env in enumerate(jobs)]  # type: ignore[misc]
        statuses = wait(pids, counted)
        texts = [
            [Path(folder, f"{name}{index}").read_text(errors="replace").splitlines() for name in ("out", "err")]
            for index in range(counted)
        ]
    finally:
        shutil.rmtree(folder)
    printed = tuple("\n".join(line for line in out if not line.startswith("[Gloo]")) for out, _ in texts)
    return Outcome(statuses, printed, tuple("\n".join(err) for _, err in texts))


def holds(claim: Claim, right: Outcome, wrong: Outcome) -> bool:
    if right.what != "ends":
        return False
    if claim.what == "differs":
        return wrong.what == "ends" and wrong.printed != right.printed
    # which of the two it is depends on which process is first
    return wrong.what in ("hang", "error")


def tell(which: str, outcome: Outcome) -> None:
    for number, printed in enumerate(outcome.printed):
        print(f"    {which} {number}: {' | '.join(printed.splitlines())[-150:]}")
        if outcome.statuses[number]:
            errors = [line for line in outcome.complaints[number].splitlines() if "Error" in line or "error" in line]
            print("        " + (errors or [""])[-1].strip()[:200])


def main(words: list[str]) -> int:
    os.environ.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2")
    pairs = {pair: claim for pair in sorted(PROGRAMS.glob("*/COD*")) if (claim := claim_of(pair))}
    failed = 0
    for pair, claim in sorted(pairs.items(), key=lambda item: (item[1].framework, item[0].name)):
        if not any(word in pair.name for word in words):
            continue
        if "import orbax" in source_of(side(pair, "wrong")) and not importlib.util.find_spec("orbax"):
            print(f"skips {pair.name}: needs orbax")
            continue
        importlib.import_module(claim.framework)
        right, wrong = (run(side(pair, which), claim) for which in ("right", "wrong"))
        good = holds(claim, right, wrong)
        failed += not good
        print(f"{'holds' if good else 'FAILS'} {pair.name}: {claim.what}, wrong {wrong.what}, right {right.what}")
        tell("right", right)
        tell("wrong", wrong)
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["COD"]))
