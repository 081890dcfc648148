# SPDX-License-Identifier: Apache-2.0
"""Warm spares with real processes: a rank from a spare sees and computes exactly what a cold start does."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from keepstep.guard.python_command import split_command
from keepstep.guard.spare import lasting
from keepstep.sources.host import capacity, processes
from keepstep.supervise.start.spares import Launch, SparePool

PATIENCE_S = 120.0
FAKE = """
    import os
    file = __file__
    SEEN = {name: os.environ.get(name) for name in ("SETTING", "OTHER")}
    __version__ = "1.0"
"""


class Bench:
    """Starts ranks as the supervisor does, in a folder where ``jax`` is whatever the test wants it to be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.pool = SparePool(start=self.start, say=self.said.append)
        self.attempt = 0

    def start(self, launch: Launch, out: int, err: int, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            launch.command,
            env=dict(launch.env),
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self.processes.append(process)
        return process

    def launch(self, *words: str, rank: int = 0, **env: str) -> Launch:
        known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        known |= {
            "KEEPSTEP": "on",
            "KEEPSTEP_RANK": str(rank),
            "KEEPSTEP_WORLD": "1",
            "KEEPSTEP_ATTEMPT": str(self.attempt),
        }
        known |= {"KEEPSTEP_DIR": str(self.folder / f"guard{self.attempt}"), "KEEPSTEP_SUPERVISOR": str(os.getpid())}
        known |= {
            "MASTER_PORT": str(20000 + self.attempt),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.pool.variables,
            **env,
        }
        return Launch(rank=rank, command=(sys.executable, *words), env=known, cwd=self.folder)

    def go(self, launch: Launch, *, warm: bool) -> tuple[subprocess.Popen[bytes], Path]:
        log = self.folder / f"rank{launch.rank}-{self.attempt}.log"
        self.attempt += 1
        with log.open("wb") as out:
            process = self.pool.take(launch, out.fileno(), out.fileno()) if warm else None
            assert warm == (process is not None), self.said
            return process or self.start(launch, out.fileno(), out.fileno()), log

    def warm_up(self, launch: Launch, process: subprocess.Popen[bytes]) -> None:
        """Wait until the spare of this rank is ready (or there shall be none)."""
        self.until(lambda: bool(self.said), launch, process)

    def until(self, done: Any, launch: Launch, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not done() and time.monotonic() < end:
            assert process.poll() is None
            self.pool.tick({launch.rank: launch}, {launch.rank: process.pid}, True)
            time.sleep(0.05)
        assert done()

    def cold_and_warm(self, *words: str, **env: str) -> tuple[str, str]:
        """What the same command prints as a cold start and out of a spare, and ends with."""
        texts = []
        for warm in (False, True):
            process, log = self.go(self.launch(*words, **env), warm=warm)
            end = time.monotonic() + PATIENCE_S
            while (
                process.poll() is None and "WAITING" not in log.read_text(errors="replace") and time.monotonic() < end
            ):
                time.sleep(0.02)
            if not warm:
                self.warm_up(self.launch(*words, **env), process)
            process.send_signal(signal.SIGTERM)
            texts.append(f"{log.read_text(errors='replace')}status {process.wait(timeout=PATIENCE_S)}")
        return texts[0], texts[1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path)
    yield found
    found.pool.close()
    for process in found.processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """A framework that only remembers its variables: a folder for PYTHONPATH."""
    write(tmp_path / "site" / "jax" / "__init__.py", FAKE)
    return str(tmp_path / "site")


LOOK = """
    import os, sys
    os.environ["SETTING"] = "by the script"
    import jax
    del os.environ["SETTING"]
    import helper
    print("main", __name__, __file__, __package__, getattr(__spec__, "name", None), __doc__)
    print("loader", type(__loader__).__name__, sorted(vars()))
    print("argv", sys.argv, "path", sys.path[0], len(sys.path), "cwd", os.getcwd())
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KEEPSTEP_") and k != "MASTER_PORT"}
    print("variables", sorted(kept.items()))
    loader = jax.__spec__.loader
    print("jax", jax.SEEN, jax.__spec__.name, type(loader).__name__, jax.__loader__ is loader, jax.__path__)
    print("modules", sys.modules["__main__"].__file__, "jax" in sys.modules, helper.NAME)
    print("out", sys.stdout.encoding, sys.stdout.line_buffering, sys.stdin.read(), flush=True)
    print("WAITING", flush=True)
    import time
    time.sleep(100)
"""


def test_a_script_cannot_tell_a_spare_from_a_cold_start(bench: Bench, fake: str, tmp_path: Path) -> None:
    write(tmp_path / "app" / "train.py", LOOK)
    write(tmp_path / "app" / "helper.py", "NAME = __name__")
    cold, warm = bench.cold_and_warm("-u", "-W", "ignore", "app/train.py", "--steps", "3", PYTHONPATH=fake)
    assert "jax {'SETTING': 'by the script', 'OTHER': None}" in cold
    assert warm == cold
    assert any("1 warm spare waits with jax imported" in line and "MB of memory" in line for line in bench.said)


def test_a_module_runs_from_a_spare_too(bench: Bench, fake: str, tmp_path: Path) -> None:
    write(tmp_path / "app" / "train.py", LOOK)
    write(tmp_path / "app" / "__init__.py", "")
    write(tmp_path / "helper.py", "NAME = __name__")
    cold, warm = bench.cold_and_warm("-m", "app.train", "-m", "x", PYTHONPATH=fake)
    assert warm == cold and "argv ['" in cold


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("raise ValueError('no')", 1),
        ("sys.exit(7)", 7),
        pytest.param("sys.exit('bye')", 1, marks=pytest.mark.long),
        pytest.param("1/0 if jax else 0", 1, marks=pytest.mark.long),
        ("os.abort()", -6),
        ("pass", 0),
    ],
)
def test_every_end_of_a_script_looks_the_same(bench: Bench, fake: str, tmp_path: Path, body: str, status: int) -> None:
    text = f"""
        import atexit, os, sys, time
        import jax
        atexit.register(print, "at exit", flush=True)
        def work():
            {body}
        if not os.path.exists("second"):
            time.sleep(100)
        work()
    """
    write(tmp_path / "train.py", text)
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    (tmp_path / "second").touch()
    texts = []
    for warm in (False, True):
        process, log = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=warm)
        assert process.wait(timeout=PATIENCE_S) == status
        texts.append(log.read_text())
    assert texts[1] == texts[0]


def test_other_variables_at_the_import_mean_a_cold_start(bench: Bench, fake: str, tmp_path: Path) -> None:
    text = """
        import os, sys, time
        os.environ["SETTING"] = open("setting").read()
        import jax
        print("jax", jax.SEEN["SETTING"], flush=True)
        print("WAITING", flush=True)
        time.sleep(100)
    """
    write(tmp_path / "train.py", text)
    write(tmp_path / "setting", "one")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    write(tmp_path / "setting", "two")
    process, log = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=True)
    end = time.monotonic() + PATIENCE_S
    while "WAITING" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    assert "jax two" in log.read_text()
    assert "imports jax with another SETTING; started cold" in log.read_text()
    assert process.poll() is None


@pytest.mark.parametrize(
    "what", ["script", *(pytest.param(each, marks=pytest.mark.long) for each in ("helper", "variable", "command"))]
)
def test_a_spare_of_something_else_is_not_used(bench: Bench, fake: str, tmp_path: Path, what: str) -> None:
    write(tmp_path / "helper.py", "NAME = 1")
    script = write(tmp_path / "train.py", "import helper, jax, time\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    changed = bench.launch("train.py", PYTHONPATH=fake)
    if what == "script":
        script.write_text(script.read_text() + "\n")
    elif what == "helper":
        write(tmp_path / "helper.py", "NAME = 2")
    elif what == "variable":
        changed = bench.launch("train.py", PYTHONPATH=fake, NCCL_SOCKET_IFNAME="lo")
    else:
        changed = bench.launch("train.py", "--more", PYTHONPATH=fake)
    waiting = bench.pool.pids()
    bench.go(changed, warm=False)
    with (tmp_path / "out").open("wb") as out:
        assert bench.pool.take(changed, out.fileno(), out.fileno()) is None
    assert "its warm spare is not used, because" in bench.said[-1]
    assert len(waiting) == 1 and not psutil.pid_exists(waiting[0])


def test_parts_that_are_loaded_late_are_loaded_ahead_where_the_script_changed_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    write(tmp_path / "site" / "jax" / "__init__.py", "import jaxlib, os\nos.environ['BY_JAX'] = '1'\n__version__ = '1'")
    for name in ("__init__", "late", "later"):
        write(tmp_path / "site" / "jaxlib" / f"{name}.py", "")
    text = """
        import os, sys, time
        ahead = [name for name in ("jaxlib.late", "jaxlib.later", "keepstep.guard.session") if name in sys.modules]
        import jax
        import jaxlib.late
        os.environ["SETTING"] = "by the script"
        import jaxlib.later
        print("ahead", ahead, flush=True)
        print("WAITING", flush=True)
        time.sleep(100)
    """
    write(tmp_path / "train.py", text)
    cold, warm = bench.cold_and_warm("train.py", PYTHONPATH=str(tmp_path / "site"))
    assert "ahead []" in cold
    assert "ahead ['jaxlib.late', 'keepstep.guard.session']" in warm


def test_no_spares_where_it_is_not_known_what_they_would_do(bench: Bench, fake: str, tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nimport jax, time\ntime.sleep(100)",
    )
    if len(os.sched_getaffinity(0)) > 1:
        first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
        bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
        assert bench.said == ["no warm spares: the script chooses its cores before it imports the framework"]
        assert bench.pool.pids() == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="a process that has stepped back may not come forward again")
def test_a_spare_that_still_imports_no_longer_steps_back_when_it_is_taken(
    bench: Bench, fake: str, tmp_path: Path
) -> None:
    write(
        tmp_path / "site" / "jax" / "__init__.py",
        """
        import os, time
        while os.path.exists('once') and not os.path.exists('go'):
            time.sleep(0.05)
        open('once', 'w')
        """,
    )
    write(tmp_path / "train.py", "import jax, time\nprint('trains', flush=True)\ntime.sleep(100)")
    launch, own = bench.launch("train.py", PYTHONPATH=fake), os.getpriority(os.PRIO_PROCESS, 0)
    first, _ = bench.go(launch, warm=False)
    behind = lambda: any(os.getpriority(os.PRIO_PROCESS, pid) > own for pid in bench.pool.pids())  # noqa: E731
    bench.until(behind, launch, first)
    taken, log = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=True)
    assert os.getpriority(os.PRIO_PROCESS, taken.pid) == own
    (tmp_path / "go").touch()
    end = time.monotonic() + PATIENCE_S
    while "trains" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    assert "trains" in log.read_text()


def test_a_framework_that_cannot_be_imported_twice_gives_no_spare(bench: Bench, fake: str, tmp_path: Path) -> None:
    write(
        tmp_path / "site" / "jax" / "__init__.py",
        "import os\nif os.path.exists('once'): raise ImportError('only once')\nopen('once', 'w')\n",
    )
    write(tmp_path / "train.py", "import jax, time\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    assert bench.said == ["no warm spares: ImportError: only once"]


def test_memory_that_is_short_means_no_spares(
    bench: Bench, fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "train.py", "import jax, time\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    launch = bench.launch("train.py", PYTHONPATH=fake)
    bench.warm_up(launch, first)
    assert len(bench.pool.pids()) == 1
    waiting = bench.pool.pids()[0]
    monkeypatch.setattr(capacity, "room", lambda: (16 << 30, 600 << 20))  # the host's answer, stood in for
    bench.pool.tick({0: launch}, {0: first.pid}, True)
    assert bench.pool.pids() == () and not psutil.pid_exists(waiting)
    assert bench.said[-1].startswith("no warm spares: only ")


def test_a_spare_ends_with_the_supervisor_and_leaves_nothing(tmp_path: Path, fake: str) -> None:
    bench = Bench(tmp_path)
    write(tmp_path / "train.py", "import jax, time\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    folder = Path(bench.pool.variables["KEEPSTEP_WARM"])
    assert folder.stat().st_mode & 0o077 == 0
    spare = bench.pool._spares[0]
    spare.connection.close()  # as the kernel does when the supervisor is killed
    assert spare.process.wait(timeout=10) == 0
    bench.pool.close()
    first.kill()
    first.wait()
    assert not folder.exists()


def test_a_spare_is_the_first_to_go_and_a_rank_is_not(bench: Bench, fake: str, tmp_path: Path) -> None:
    write(tmp_path / "train.py", "import jax, time\nprint('WAITING', flush=True)\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    adjusted = Path(f"/proc/{bench.pool.pids()[0]}/oom_score_adj")
    assert adjusted.read_text().strip() == "900"
    process, log = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=True)
    end = time.monotonic() + PATIENCE_S
    while "WAITING" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    assert adjusted.read_text() == Path(f"/proc/{first.pid}/oom_score_adj").read_text()
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, first.pid)


def test_a_waiting_spare_is_no_training_process_and_the_rank_it_becomes_is(
    bench: Bench, fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_maps_framework", lambda pid: True)  # the fake one has no library to map
    write(tmp_path / "train.py", "import jax, time\nprint('WAITING', flush=True)\ntime.sleep(100)")
    first, _ = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=False)
    bench.warm_up(bench.launch("train.py", PYTHONPATH=fake), first)
    (spare,) = bench.pool.pids()
    os.kill(spare, signal.SIGSTOP)  # as the supervisor does while it looks at stacks
    found = {each.pid for each in processes.find()[0]}
    assert first.pid in found and spare not in found
    os.kill(spare, signal.SIGCONT)
    process, log = bench.go(bench.launch("train.py", PYTHONPATH=fake), warm=True)
    assert process.pid == spare
    end = time.monotonic() + PATIENCE_S
    while "WAITING" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    jobs = {each.pid: each.job for each in processes.find()[0]}
    assert jobs[spare] == jobs[first.pid], "one run, whatever its variables said when it was started"


SETTINGS = """
    import os, sys, time
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import numpy
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["OMP_NUM_THREADS"] = "1"
    import jax, keras, torch
    os.environ["JAX_ENABLE_X64"] = "0"
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    rows = numpy.linspace(0, 1, 48).reshape(8, 6)
    history = model.fit(rows, rows[:, 0], epochs=3, verbose=0)
    torch.manual_seed(3)
    layer = torch.nn.Linear(64, 64)
    product = layer(torch.randn(256, 64)).square().mean()
    product.backward()
    print("keras", keras.backend.backend(), [repr(loss) for loss in history.history["loss"]])
    print("jax", jax.numpy.arange(3.0).dtype, repr(float(jax.numpy.sin(jax.numpy.arange(1000.0)).sum())))
    print("torch", torch.get_num_threads(), repr(float(product)), repr(float(layer.weight.grad.double().sum())))
    print("WAITING", flush=True)
    time.sleep(100)
"""


@pytest.mark.long
@pytest.mark.frameworks
@pytest.mark.slow
def test_settings_made_inside_the_script_hold_warm_as_cold(bench: Bench, tmp_path: Path) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("jax", "keras", "torch")):
        pytest.skip("needs jax, keras and torch")
    write(tmp_path / "train.py", SETTINGS)
    cold, warm = bench.cold_and_warm("train.py")
    lines = [line for line in cold.splitlines() if line.startswith(("keras", "jax", "torch", "status"))]
    assert (
        lines[0].startswith("keras jax [") and lines[1].startswith("jax float64 ") and lines[2].startswith("torch 1 ")
    )
    assert [line for line in warm.splitlines() if line.startswith(("keras", "jax", "torch", "status"))] == lines
    assert "started cold" not in warm


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --x 1", ([], ["train.py", "--x", "1"])),
        ("python -u -X dev -Wignore -OO train.py", (["-u", "-X", "dev", "-Wignore", "-OO"], ["train.py"])),
        ("python -m app.train -c 3", ([], ["-m", "app.train", "-c", "3"])),
        ("python -c pass", None),
        ("python -", None),
        ("python", None),
        ("python -i train.py", None),
        ("python --version", None),
        ("python folder", None),
        ("python -m", None),
    ],
)
def test_commands_are_taken_apart(command: str, expected: tuple[list[str], list[str]] | None) -> None:
    assert split_command(command.split()) == expected


def test_what_changes_at_every_attempt_is_known() -> None:
    env = {"MASTER_PORT": "1", "TF_CONFIG": "{}", "KEEPSTEP_DIR": "x", "KEEPSTEP": "on", "OMP_NUM_THREADS": "2"}
    assert lasting(env) == {"OMP_NUM_THREADS": "2"}
    assert json.dumps(lasting({})) == "{}"


def test_changed_launches_are_not_the_same() -> None:
    launch = Launch(rank=0, command=("a",), env={}, cwd=Path())
    assert replace(launch, command=("b",)) != launch
