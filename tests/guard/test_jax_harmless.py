# SPDX-License-Identifier: Apache-2.0
"""The guard in healthy JAX trainings: silent, without a trace in their results, even where its own parts are broken."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from keepstep.guard.agree.contract import LEAST_S
from keepstep.signals import blackbox
from keepstep.signals.blackbox import LEAN, BoxPhase, RecordKind
from tests.guard.torch_ranks import Ranks, ranks

pytestmark = [pytest.mark.frameworks("jax"), pytest.mark.slow]
SCRIPT = Path(__file__).with_name("jax_training.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "guard_jax.py"
FAULT = ("--fault", "evaluations", "--steps", "24")
HEALTHY = {"BatchFed", "WorldFormed", "ContractStated", "PlanNamed", "RankEnded"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The results of the training without a guard."""
    with ranks(tmp_path_factory.mktemp("plain"), *FAULT, script=SCRIPT, KEEPSTEP="off") as running:
        assert running.ended() == [0, 0]
        assert not running.guard.exists()
        return running.results()


def box(running: Ranks, rank: int) -> blackbox.BlackBox:
    (path,) = running.guard.glob(f"rank{rank}-*.box")
    return blackbox.read(path.read_bytes())


def test_a_healthy_run_is_silent_recorded_and_ends_with_the_same_bits(tmp_path: Path, plain: list[str]) -> None:
    with ranks(tmp_path, *FAULT, script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert running.results() == plain
        assert "keepstep" not in running.logs()
        assert running.noted() == HEALTHY
        for rank in (0, 1):
            kinds = Counter(RecordKind(record.kind).name for record in box(running, rank).records)
            assert kinds["STEP"] == 24
            assert kinds["PLAN"] >= 24 + 18
            phases = {
                BoxPhase(record.value) for record in box(running, rank).records if record.kind == RecordKind.PHASE
            }
            assert phases >= {
                BoxPhase.START,
                BoxPhase.COMPILE,
                BoxPhase.INPUT,
                BoxPhase.COMPUTE,
                BoxPhase.EVALUATION,
                BoxPhase.END,
            }
        plans = {note["fields"]["name"] for note in running.notes("PlanNamed")}
        assert plans >= {"update", "loss_of"}


@pytest.mark.long
def test_lean_steps_are_counted_silent_and_end_with_the_same_bits(tmp_path: Path, plain: list[str]) -> None:
    with ranks(
        tmp_path,
        *FAULT,
        "--before",
        "from keepstep.guard import startup_hook as s; s.session().every = 5",
        script=SCRIPT,
    ) as running:
        assert running.ended() == [0, 0]
        assert running.results() == plain
        assert running.noted() == HEALTHY
        for rank in (0, 1):
            steps = [record for record in box(running, rank).records if record.kind == RecordKind.STEP]
            assert [step.value for step in steps] == list(range(1, 25))
            assert 6 < sum(step.spare == LEAN for step in steps) < 20, "an evaluation between them is written in full"


BROKEN = {
    "every look at a program": (
        "import keepstep.guard.adapters.jax.program_contracts as c\nc.JaxPrograms.look = lambda *a: 1 / 0"
    ),
    "the record of executions": "import keepstep.guard.adapters.jax.executions as r\nr.Runs.ran = lambda *a: 1 / 0",
    "the text of programs": (
        "import keepstep.guard.adapters.jax.program_text as p\np.read_module = p.lowered_words = lambda *a: 1 / 0"
    ),
    "the input": "import keepstep.guard.adapters.jax.input as i\ni.Feed._came = i.Feed.before_step = lambda *a: 1 / 0",
    "the exchange": "import keepstep.guard.adapters.jax.world as w\nw.CoordinationService.put = lambda *a: 1 / 0",
}


@pytest.mark.parametrize(
    "part",
    [part if part == "every look at a program" else pytest.param(part, marks=pytest.mark.long) for part in BROKEN],
)
def test_a_part_that_fails_turns_itself_off_and_the_training_goes_on(
    tmp_path: Path, plain: list[str], part: str
) -> None:
    with ranks(tmp_path, *FAULT, "--before", BROKEN[part], script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert running.results() == plain
        assert "is off (ZeroDivisionError: division by zero); the training is not affected" in running.log(0)
        assert running.notes("GuardPart")


@pytest.mark.long
def test_a_version_of_jax_without_any_of_the_inner_parts_trains_as_before(tmp_path: Path, plain: list[str]) -> None:
    before = (
        "import keepstep.guard.adapters.jax.attach as a\n"
        "a.execution_hook.watch = lambda *a: 1 / 0\n"
        "import keepstep.guard.adapters.jax.world as w\n"
        "w.watch = lambda *a: 1 / 0\n"
    )
    with ranks(tmp_path, *FAULT, "--before", before, "--after", "jax.__version__ = 'banana'", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert running.results() == plain


@pytest.mark.long
def test_a_folder_that_cannot_be_written_leaves_the_training_alone(tmp_path: Path, plain: list[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    with ranks(tmp_path, *FAULT, script=SCRIPT, KEEPSTEP_DIR=str(tmp_path / "file" / "guard")) as running:
        assert running.ended() == [0, 0]
        assert running.results() == plain


def test_a_program_of_rank_0_alone_is_no_contract(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "only_rank_0", "--steps", "12", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert running.noted() <= HEALTHY
        assert "keepstep" not in running.logs()


DEAF = """
import os, time
import keepstep.guard.adapters.jax.lockstep as l
if os.environ["RANK"] == "0":  # as if its guard's thread never came to look
    l.Lockstep.look = l.Lockstep._answer = lambda self, *a: None
agree = l.Lockstep.agree
def timed(self, side):
    began, steps = time.monotonic(), self._session.steps
    agree(self, side)
    print(f"held {time.monotonic() - began:.2f} s after {steps} steps", flush=True)
l.Lockstep.agree = timed
"""


def test_a_rank_whose_new_program_nobody_answers_for_is_let_go_soon(tmp_path: Path) -> None:
    """Its batch is short, and it announces another program; rank 0 never answers."""
    with ranks(tmp_path, "--fault", "late_ragged", "--steps", "12", "--before", DEAF, script=SCRIPT) as running:
        running.wait_for(lambda: "s after 6 steps" in running.log(1))
        (held,) = re.findall(r"held ([\d.]+) s after 6 steps", running.log(1))
        assert 0.5 < float(held) < LEAST_S + 60.0, (
            "it waited, and was let go; asking the service takes its time on a busy host, and without a limit it hangs"
        )


LOCAL = """
import jax, numpy as np
jax.config.update("jax_cpu_collectives_implementation", "gloo")
import os
jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", 2, int(os.environ["RANK"]))
step = jax.jit(lambda w, x: w - 0.01 * (w @ x))
w = np.ones((4, 4), "float32")
for number in range(31):
    w = step(w, np.ones((4, 4), "float32") * number)
w.block_until_ready()
"""


def test_steps_that_ran_before_they_were_known_as_steps_are_counted(tmp_path: Path) -> None:
    script = tmp_path / "local.py"
    script.write_text(LOCAL)
    with ranks(tmp_path, script=script) as running:
        assert running.ended() == [0, 0]
        for rank in (0, 1):
            steps = [record.value for record in box(running, rank).records if record.kind == RecordKind.STEP]
            assert steps[-1] == 31


UNHARMED = """
import functools, pickle, weakref
import jax, jax.numpy as jnp, numpy as np
from keepstep.guard import startup_hook as start
session = start.session()
assert not jax._src.xla_bridge.backends_are_initialized()

@jax.jit
def update(w, x):
    return w - 0.1 * (x.T @ x), (x @ w).sum()

w, x = jnp.ones((4, 4)), np.ones((8, 4), "float32")
for _ in range(5):
    w, loss = update(w, x)
assert session.steps == 5, session.steps
compiled = update.lower(w, x).compile()
for _ in range(5):
    w, loss = compiled(w, x)
assert session.steps == 10, session.steps
evaluate = jax.jit(lambda w, x: (x @ w).mean())
for _ in range(30):
    evaluate(w, x)
jax.grad(lambda w: update(w, x)[1])(w)
jax.jit(lambda w: update(w, x)[0])(w), jax.eval_shape(update, w, x), update.trace(w, x), update.eval_shape(w, x)
assert type(update) is type(jax.jit(lambda: 0)) and update.__wrapped__.__name__ == "update"
assert weakref.ref(update)() is update and hash(update) and update == update

class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def double(self, x):
        return 2 * x

assert Model().double(3) == 6
steps = session.steps
jax.config.update("jax_debug_nans", True)
log = jax.jit(jnp.log)
log(jnp.ones(3)), log(jnp.ones(3))
for _ in range(3):
    w, loss = update(w * 0 + 1, x)
assert session.steps == steps + 3, (session.steps, steps)
try:
    log(-jnp.ones(3))
except FloatingPointError:
    print("debug_nans still works")
jax.config.update("jax_debug_nans", False)
jax.vmap(lambda row: update(w, row[None])[1])(jnp.asarray(x))  # leaves this thread without JAX's own hook
steps = session.steps
for _ in range(3):
    w, loss = update(w, x)
assert session.steps == steps + 3, (session.steps, steps)
batch = {"a": np.ones((8, 4), "float32"), "b": np.ones(4, "float32")}
trains = jax.jit(lambda w, batch: w - batch["a"].mean(0) * batch["b"])
w = jnp.ones(4)
for _ in range(5):
    w = trains(w, jax.device_put(batch))
with jax.checking_leaks():  # the guard keeps nothing of a program that is traced
    jax.jit(lambda x: jax.device_put(x).sum())(batch["a"])
from safetensors import safe_open
import safetensors.numpy as files
files.save_file(batch, "weights.safetensors")
with safe_open("weights.safetensors", "np") as opened:
    assert isinstance(opened, safe_open | None) and not isinstance(3, safe_open) and sorted(opened.keys()) == ["a", "b"]
try:
    files.load_file("odd" + chr(0))
except (OSError, ValueError):
    print("no such file")
assert not {*session.off} - {"the content of a loaded checkpoint"}, session.off  # read back before it had a record
"""


def test_functions_of_jit_are_what_they_were_and_steps_are_told_from_the_rest(tmp_path: Path) -> None:
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
        "KEEPSTEP": "on",
        "KEEPSTEP_DIR": str(tmp_path / "guard"),
    }
    done = subprocess.run(
        [sys.executable, "-c", UNHARMED], env=env, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "debug_nans still works" in done.stdout and "no such file" in done.stdout


@pytest.mark.long
def test_the_example_runs(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KEEPSTEP_DIR": str(tmp_path / "guard")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=env, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "argument x: float32[16,8]" in done.stdout and "float32[12,8]" in done.stdout
    assert "trained to the end" in done.stdout
