# SPDX-License-Identifier: Apache-2.0
"""The guard's hooks of this process, taken out and put back: the same training with and without them, a few steps each
in turns.

Two processes are never equally fast, whatever runs in them; one process with and without the hooks is compared with
itself. A
step varies by more than the hooks cost, so the time inside them is measured as well.
"""

from __future__ import annotations

import functools
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from benchmarks.in_turns import Ranks, median_within
from keepstep.guard.hook_cost import EVERY

PAIRS, STEPS = 200, EVERY
"""Each turn holds one of the steps that are recorded in full."""
SETTLING, INSIDE = 1500, 100 * EVERY
"""Steps until the guard has weighed its hooks, and steps in which they are timed."""
LONG = {"rows": 8, "steps": 3, "settling": 100, "inside": 8 * EVERY}
"""With ``--long``: so many times the rows in a batch; in steps that long all are recorded in full."""
HEADING = (
    "| what | step ms without | with | difference (95 %) | processor time of the training's thread "
    "| inside the hooks | the guard's thread, of a core | bar |\n"
    "|---|---|---|---|---|---|---|---|"
)
OWN = "keepstep/guard/"


class Hooks:
    """Found by where their code is. ``put(False)`` takes them out, ``put(True)`` puts them back."""

    def __init__(self, framework: str) -> None:
        self._placed = list(_placed(framework))
        self._registers: list[tuple[Any, dict[Any, Any]]] = []
        self._post: Any = None
        if framework == "torch":
            from torch.optim import optimizer

            registers = (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)
            self._registers = [(register, dict(register)) for register in registers]
        if framework == "jax":
            from keepstep.guard.adapters.jax.execution_hook import PostHook

            self._post = PostHook()
            self._ours = self._post.get()
        assert self._placed and (framework != "jax" or self._ours is not None), f"no hook of the guard in {framework}"

    def put(self, on: bool) -> None:
        for owner, name, hook in self._placed:
            setattr(owner, name, hook if on else hook.__wrapped__)
        for register, known in self._registers:
            register.clear()
            register.update(known if on else {})
        if self._post is not None:
            self._post.put(self._ours if on else self._ours.keepstep_before)

    def time(self) -> list[int]:
        """From now on, nanoseconds of the processor inside the hooks are added to the number that is returned; what the
        hooks call of the framework is not."""
        spent = [0]
        timed = {}
        for owner, name, hook in self._placed:
            if hook not in timed:
                for cell in hook.__closure__ or ():
                    if cell.cell_contents is hook.__wrapped__:
                        cell.cell_contents = _timed(hook.__wrapped__, spent, -1)
                timed[hook] = _timed(hook, spent, 1)
            setattr(owner, name, timed[hook])
        for register, known in self._registers:
            register.update({key: _timed(hook, spent, 1) for key, hook in known.items()})
        if self._post is not None:
            self._post.put(_timed(self._ours, spent, 1))
        return spent


def _timed(function: Any, spent: list[int], sign: int) -> Any:
    now = time.thread_time_ns  # by the clock, what else the processor does would count

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        began = now()
        try:
            return function(*args, **kwargs)
        finally:
            spent[0] += sign * (now() - began)

    return call


def _placed(framework: str) -> Iterator[tuple[Any, str, Any]]:
    for module in [
        each for name, each in list(sys.modules.items()) if name.partition(".")[0] == framework and each is not None
    ]:
        owners = [module, *(each for each in list(vars(module).values()) if isinstance(each, type))]
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if (
                    isinstance(value, FunctionType)
                    and OWN in value.__code__.co_filename
                    and hasattr(value, "__wrapped__")
                ):
                    yield owner, name, value


def serve(framework: str, take: Callable[[int], None], warm_up: int = 60) -> None:
    """A rank: takes steps as each line of its input says (``on 5``), and answers with what they took."""
    take(warm_up)
    hooks = Hooks(framework)
    print(f"TOOK {0.0}", flush=True)
    for line in sys.stdin:
        mode, steps = line.split()
        if mode == "inside":
            spent, seen = hooks.time(), []
            take(STEPS)
            for _ in range(int(steps)):
                spent[0] = 0
                take(1)
                seen.append(spent[0] / 1e9)
            whole = range(0, len(seen) - EVERY + 1, EVERY)
            print(f"TOOK {statistics.median(statistics.mean(seen[at : at + EVERY]) for at in whole)}", flush=True)
            continue
        hooks.put(mode == "on")
        take(1)
        began, used = time.perf_counter(), time.thread_time()
        take(int(steps))
        print(f"TOOK {time.perf_counter() - began} {time.thread_time() - used} {own_s()}", flush=True)


def own_s() -> float:
    """Processor time of the guard's own thread so far."""
    threads = [each for each in threading.enumerate() if each.name == "keepstep" and each.ident is not None]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(each.ident or 0)) for each in threads)


def row(
    name: str,
    start: Callable[[Path], Ranks],
    *,
    bar: float,
    pairs: int = PAIRS,
    steps: int = STEPS,
    settling: int = SETTLING,
    inside: int = INSIDE,
) -> str:
    """``start(folder)`` begins a training with the guard on.

    A line of the table, and what else was measured in words.
    """
    random.seed(5)
    wall: dict[str, list[float]] = {"off": [], "on": []}
    used: dict[str, list[float]] = {"off": [], "on": []}
    with tempfile.TemporaryDirectory() as folder:
        job = start(Path(folder))
        try:
            job.answers()
            job.ask(f"on {settling}")
            began, own = time.perf_counter(), max(answer[2] for answer in job.ask(f"on {steps}"))
            for _ in range(pairs):
                for mode in random.sample(("off", "on"), 2):
                    answers = job.ask(f"{mode} {steps}")
                    wall[mode].append(max(answer[0] for answer in answers) / steps)
                    used[mode].append(statistics.mean(answer[1] for answer in answers) / steps)
                print(*(f"{mode} {1000 * each[-1]:.3f} ms" for mode, each in used.items()), file=sys.stderr, flush=True)
            own = max(answer[2] for answer in job.ask(f"on {steps}")) - own
            share = own / (time.perf_counter() - began)
            in_hooks = max(answer[0] for answer in job.ask(f"inside {inside}"))
        finally:
            job.end()
    more, low, high = median_within([on / off - 1 for off, on in zip(wall["off"], wall["on"], strict=True)])
    cpu, cpu_low, cpu_high = median_within([1e6 * (on - off) for off, on in zip(used["off"], used["on"], strict=True)])
    off, on = statistics.median(wall["off"]), statistics.median(wall["on"])
    of_step = 1e6 * statistics.median(used["off"])
    return (
        f"| {name} | {off * 1000:.2f} | {on * 1000:.2f} | {more:+.2%} ({low:+.2%} to {high:+.2%}) "
        f"| {cpu:+.0f} µs ({cpu_low:+.0f} to {cpu_high:+.0f}) of {of_step / 1000:.1f} ms: {cpu / of_step:+.2%} "
        f"({cpu_low / of_step:+.2%} to {cpu_high / of_step:+.2%}) "
        f"| {in_hooks * 1e6:.0f} µs, {in_hooks * 1e6 / of_step:.2%} | {share:.2%} | {bar:.1%} |"
    )
