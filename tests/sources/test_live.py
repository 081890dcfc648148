# SPDX-License-Identifier: Apache-2.0
"""Live processes: tiny real ones that hang or make progress, and one stuck pair per framework."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import keepstep.rules
from keepstep.analyze import live
from keepstep.analyze.live import look_at_live
from keepstep.analyze.why import explain_live
from keepstep.base.proc_stat import read_stat
from keepstep.model.cause import Cause
from keepstep.model.evidence import CoverageState, Evidence, Origin
from keepstep.model.facts.guard import WorldFormed
from keepstep.model.facts.process import ProcessSeen, StackDump
from keepstep.model.report import Report, Verdict
from keepstep.model.rule import rules_in
from keepstep.parse.scan.lines.rank_variables import meeting_place
from keepstep.sources.host import processes
from keepstep.sources.stacks import process_stacks
from keepstep.store.evidence_file import append
from keepstep.story.engine import diagnose

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
needs_pystack = pytest.mark.skipif(not process_stacks.have_pystack(), reason="pystack is not installed")

# A collective as torch names it, made of a socket pair: hangs until a peer comes.
COLLECTIVE = """\
import os
def all_reduce(r, w):
    os.write(w, b"x")
    os.read(r, 1)
"""
TRAIN = """\
import os, sys, time
sys.path.insert(0, sys.argv[1])
from torch.distributed.distributed_c10d import all_reduce
def compute():
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
def train(r, w, hold):
    print("up", flush=True)
    for step in range(10**9):
        if hold and step == 3:
            time.sleep(600)
        compute()
        all_reduce(r, w)
train(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "hold")
"""


@contextmanager
def running(*started: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def pair(folder: Path, hold: bool, port: int = 1) -> list[subprocess.Popen[bytes]]:
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "distributed_c10d.py").write_text(COLLECTIVE)
    (folder / "train.py").write_text(TRAIN)
    (read0, write1), (read1, write0) = os.pipe(), os.pipe()
    started = []
    for rank, (r, w) in enumerate(((read0, write0), (read1, write1))):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": str(port)}
        command = [
            sys.executable,
            str(folder / "train.py"),
            str(folder),
            str(r),
            str(w),
            "hold" if hold and rank else "go",
        ]
        started.append(subprocess.Popen(command, env=environment, pass_fds=(r, w), stdout=subprocess.PIPE))
    for end in (read0, write0, read1, write1):
        os.close(end)
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
    for process in started if hold else ():
        wait_until_it_sleeps(process.pid)
    return started


def wait_until_it_sleeps(pid: int, limit_s: float = 60.0) -> None:
    """Until a process has used no processor time for a while: then it is where its program stays."""
    end, quiet, before = time.monotonic() + limit_s, 0, None
    while quiet < 4 and time.monotonic() < end:
        now = read_stat(pid)
        assert now is not None, "it has ended"
        quiet = quiet + 1 if before is not None and now.state == "S" and now.cpu_s == before else 0
        before = now.cpu_s
        time.sleep(0.05)
    assert quiet, "it is busy"


def look(pids: list[int]) -> Report:
    return diagnose(look_at_live(pids), rules_in(keepstep.rules))


@needs_pystack
def test_the_rank_that_holds_up_the_other_is_named_with_its_line(tmp_path: Path) -> None:
    with running(*pair(tmp_path, hold=True)) as pids:
        found = look(pids)
    assert found.verdict is Verdict.HUNG
    assert found.root is not None
    assert (found.root.cause, found.root.ranks) == (Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, (1,))
    assert "time.sleep at train.py:12, in train()" in found.root.title
    assert "rank 0 waited in all_reduce" in found.root.title


@needs_pystack
def test_a_healthy_pair_is_left_in_peace(tmp_path: Path) -> None:
    with running(*pair(tmp_path, hold=False)) as pids:
        found = look(pids)
    assert found.findings == ()


@needs_pystack
def test_what_still_runs_is_never_called_healthy(tmp_path: Path) -> None:
    with running(*pair(tmp_path, hold=False)) as pids:
        found = explain_live(pids).report
    assert (found.verdict, found.findings, found.exit_status) == (Verdict.UNKNOWN, (), 3)


def test_processes_that_end_while_they_are_looked_at_are_not_called_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = pair(tmp_path, hold=False)

    def end_them(seconds: float) -> None:
        for process in started:
            process.kill()
            process.wait()

    monkeypatch.setattr(live.look_at_live, "__kwdefaults__", {**live.look_at_live.__kwdefaults__, "sleep": end_them})
    with running(*started) as pids:
        found = explain_live(pids).report
    assert found.verdict is Verdict.UNKNOWN and found.exit_status == 3
    assert any(c.what.startswith("how 2 processes ended") for c in found.coverage)


@needs_pystack
def test_two_jobs_are_told_apart_and_one_that_moves_does_not_hide_one_that_hangs(tmp_path: Path) -> None:
    stuck = pair(tmp_path / "stuck", hold=True, port=1)
    with running(*stuck, *pair(tmp_path / "moving", hold=False, port=2)) as pids:
        found = explain_live(pids).report
    assert found.verdict is Verdict.HUNG and found.root is not None and found.root.ranks == (1,)
    assert f"(pid {pids[0]}, {pids[1]}): rank 1 was stuck in time.sleep at train.py:12" in found.root.title
    assert len(found.story) == 2 and f"(pid {pids[2]}, {pids[3]})" in found.story[1]


def test_a_stopped_rank_is_found_also_without_pystack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_stacks, "have_pystack", lambda: False)
    with running(*pair(tmp_path, hold=False)) as pids:
        os.kill(pids[1], signal.SIGSTOP)
        found = look(pids)
    assert found.root is not None
    assert found.root.ranks == (1,) and "stopped" in found.root.title
    assert any("pystack is not installed" in c.why for c in found.coverage)


def test_a_process_that_is_not_there_is_a_line_of_coverage() -> None:
    seen = look_at_live([2**22 + 1])
    assert seen.items == ()
    assert seen.coverage[0].state is CoverageState.UNAVAILABLE and "no such process" in seen.coverage[0].why


def test_this_process_and_its_parents_are_never_found() -> None:
    found, _ = processes.find()
    assert os.getpid() not in {training.pid for training in found}


def test_commands_are_told_without_their_arguments() -> None:
    with running(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "--token=secret"])) as pids:
        found, _ = processes.find(pids)
    assert "secret" not in found[0].command


@needs_pystack
def test_stacks_of_one_process_have_its_main_thread_first() -> None:
    program = "import time\ndef wait():\n    time.sleep(60)\nprint('up', flush=True)\nwait()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with running(process) as pids:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        wait_until_it_sleeps(pids[0])
        evidence = process_stacks.stacks_of(pids[0])
    first = evidence[0].fact
    assert isinstance(first, StackDump) and first.current and first.living
    assert "wait" in [f.function for f in first.frames]
    assert any(f.is_native for f in first.frames)


GUARDED = """\
import keepstep, time
keepstep.guard.attach()
print("up", flush=True)
time.sleep(600)
"""


def test_what_the_guards_know_of_ranks_and_their_world_counts(tmp_path: Path) -> None:
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off", "KEEPSTEP_RANK": "1", "KEEPSTEP_WORLD": "2"}
    command = [sys.executable, "-c", GUARDED]
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with running(process) as pids:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        (ending,) = (tmp_path / ".keepstep" / "guard").rglob(".rank1-*.exit")
        notes = ending.with_name(f"{ending.name[1:].removesuffix('.exit')}.notes.jsonl")
        formed = Evidence(fact=WorldFormed(size=2, framework="tensorflow"), origin=Origin(source=notes.name))
        append(notes, [formed])
        seen = explain_live(pids).seen
    assert [each.fact.size for each in seen.all(WorldFormed)] == [2]
    assert [each.who for each in seen.all(ProcessSeen)] == [1], "no variable of a launcher says so"


# One stuck pair of each framework: rank 1 sleeps, rank 0 is in a collective of the framework.

TORCH = """\
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(10):
    if step == 3 and dist.get_rank() == 1:
        time.sleep(600)
    dist.all_reduce(torch.ones(4))
    print("step", step, flush=True)
"""
JAX = """\
import os, time, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rank = int(os.environ["JAX_PROCESS_ID"])
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(os.environ["ADDRESS"], 2, rank)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
total = jax.jit(lambda x: x.sum())
for step in range(10):
    if step == 3 and rank == 1:
        time.sleep(600)
    batch = jax.make_array_from_process_local_data(rows, np.ones((4, 4), "float32"))
    print("step", step, float(total(batch)), flush=True)
"""
TENSORFLOW = """\
import json, os, time, tensorflow as tf
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
options = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.RING)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
@tf.function
def train_step():
    return strategy.reduce("sum", strategy.run(lambda: tf.random.normal(())), axis=None)
for step in range(10):
    if step == 3 and rank == 1:
        time.sleep(600)
    print("step", step, float(train_step()), flush=True)
"""


def ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    for each in taken:
        each.bind(("127.0.0.1", 0))
    numbers = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return numbers


def environments(name: str) -> list[dict[str, str]]:
    one, two = ports(2)
    if name == "torch":
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one)}
        return [{**common, "RANK": str(rank)} for rank in range(2)]
    if name == "jax":
        common = {"JAX_NUM_PROCESSES": "2", "ADDRESS": f"127.0.0.1:{one}"}
        return [{**common, "JAX_PROCESS_ID": str(rank)} for rank in range(2)]
    cluster = {"worker": [f"127.0.0.1:{one}", f"127.0.0.1:{two}"]}
    tasks = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
    return [{"TF_CONFIG": task} for task in tasks]


@needs_pystack
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "program", "line", "wait"),
    [
        pytest.param("torch", TORCH, 5, "all_reduce", marks=pytest.mark.frameworks("torch")),
        pytest.param("jax", JAX, 11, "allreduce", marks=[pytest.mark.frameworks("jax"), pytest.mark.long]),
        pytest.param(  # its collectives wait in no thread of their own
            "tensorflow",
            TENSORFLOW,
            11,
            "a tf.function step",
            marks=[pytest.mark.frameworks("tensorflow"), pytest.mark.long],
        ),
    ],
)
def test_a_stuck_pair_of_each_framework_names_the_sleeper(
    tmp_path: Path, name: str, program: str, line: int, wait: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(program)
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for environment in environments(name)
    ]
    with running(*started) as pids:
        for process in started:
            assert process.stdout is not None
            while not (said := process.stdout.readline()).startswith(b"step 2"):
                assert said, "the job ended before it got stuck"
        time.sleep(1.5)
        seen = look_at_live(pids)
    assert [e.who for e in seen.all(ProcessSeen)] == [0, 1]
    found = diagnose(seen, rules_in(keepstep.rules))
    assert found.root is not None and found.root.ranks == (1,)
    assert f"time.sleep at train.py:{line}" in found.root.title
    assert wait in found.root.title


LOST = """\
import sys, jax
jax.config.update("jax_platforms", "cpu")
print("up", flush=True)
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
"""


@needs_pystack
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.frameworks("jax")
def test_processes_that_wait_at_different_coordinators_are_a_matter_of_configuration(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOST)
    places = [f"127.0.0.1:{port}" for port in ports(2)]
    started = [
        subprocess.Popen(
            [sys.executable, str(script), place, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for rank, place in enumerate(places)
    ]
    with running(*started) as pids:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            wait_until_it_sleeps(process.pid)
        found = explain_live(pids).report
    assert found.root is not None and found.root.cause is Cause.CONFIG_CLUSTER_SPEC
    assert all(place in found.root.title for place in places)
    assert "jax.distributed.initialize at train.py:4" in found.root.because


@pytest.mark.parametrize(
    ("words", "variables", "place"),
    [
        (["train.py", "127.0.0.1:8476", "2", "0"], {}, "127.0.0.1:8476"),
        (["train.py", "--coordinator_address=node-1:8476"], {}, "node-1:8476"),
        (["train.py", "--coordinator", "node-1:8476", "10.0.0.9:80"], {}, "node-1:8476"),
        (["train.py", "--dist-url", "tcp://node-1:8476"], {}, "node-1:8476"),
        (["train.py"], {"MASTER_ADDR": "node-1", "MASTER_PORT": "29500"}, "node-1:29500"),
        (["train.py"], {"MASTER_ADDR": "node-1"}, None),
        (["train.py"], {"TF_CONFIG": '{"cluster": {"worker": ["node-1:1", "node-2:1"]}}'}, "node-1:1"),
        (["train.py"], {"TF_CONFIG": '{"cluster": {"ps": ["node-3:1"], "chief": ["node-1:1"]}}'}, "node-1:1"),
        (["train.py"], {"TF_CONFIG": '{"cluster": {"worker": {}}}'}, None),
        (["train.py", "--login", "anna:12345", "bob:4711"], {}, None),
        (["train.py", "10.0.0.9:80", "10.0.0.8:80"], {}, None),
    ],
)
def test_where_a_process_meets_the_others(words: list[str], variables: dict[str, str], place: str | None) -> None:
    assert meeting_place(variables, ["python", *words]) == place
