# SPDX-License-Identifier: Apache-2.0
"""The process of the dry run: the user's script, as its interpreter would run it, for two optimizer steps."""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from keepstep.check.memory.dry_run import confinement
from keepstep.check.memory.dry_run.clock import Clock
from keepstep.check.memory.dry_run.storage_log import StorageLog

_writing = threading.Lock()


def main() -> None:
    """``sys.argv``: what is asked, as JSON, and the descriptor for the answer."""
    asked, answer = json.loads(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(answer, False)
    try:
        confined = confinement.enter(asked["scratch"])
        log = StorageLog(tuple(asked["own_folders"]))
        clock = Clock(answer, log, asked["seconds"])
        clock.end = lambda place: _write(answer, {"ended": "late", "place": place, "steps": clock.steps()})
        clock.start()
        _try(asked, answer, confined, log, clock)
    except BaseException as error:
        traceback.print_exc()
        _write(answer, {"own": f"{type(error).__name__}: {error}"[:2000], "missing": getattr(error, "name", None)})


def _try(asked: dict[str, Any], answer: int, confined: str, log: StorageLog, clock: Clock) -> None:
    run = partial(_run, asked, asked["arguments"])
    if asked["framework"] == "jax":
        from keepstep.check.memory.dry_run.in_jax.start import try_jax

        return try_jax(asked, confined, log, run, lambda seen: _write(answer, seen))
    if asked["framework"] == "tensorflow":
        from keepstep.check.memory.dry_run.in_tensorflow.start import try_tensorflow

        return try_tensorflow(
            asked, confined, log, lambda: _run(asked, asked["arguments"]), lambda seen: _write(answer, seen)
        )
    import torch

    from keepstep.check.memory.dry_run import changes, cuda_answers, device_tensors, gpu_kernels, one_process, recurrent
    from keepstep.check.memory.dry_run.after_two_steps import AfterTwoSteps
    from keepstep.check.memory.dry_run.training_steps import TrainingSteps

    mode = device_tensors.DeviceTensors(log)

    def finish(ended: str, error: str = "", place: str = "") -> None:
        if after.reached:
            ended, error, place = "steps", "", ""
        steps.label_parameters()
        seen = {"ended": ended, "error": error, "place": place, "steps": steps.steps}
        sums = {"sums": steps.sums, "counted": steps.counted, "model": steps.model()}
        about = {"torch": torch.__version__, "confined": confined, "grouped": one_process.is_grouped()}
        _write(answer, {**log.as_json(), **seen, **sums, **about})

    after = AfterTwoSteps(log, clock, lambda: finish("steps"), asked["after_s"])
    steps = TrainingSteps(mode, after.stepped)
    clock.steps, clock.end = (lambda: steps.steps), (lambda place: finish("late", place=place))
    device_tensors.install(mode)
    cuda_answers.install(mode, asked["name"], asked["total"], tuple(asked["capability"]), asked["devices"])
    gpu_kernels.install(mode)
    recurrent.install(mode)
    one_process.install(mode, asked["ranks"], asked["launched"])
    change = asked["change"]
    steps.install(changes.accumulate if change.get("accumulate") else None)
    if change.get("checkpoint"):
        changes.recompute(steps.modules)
    if change.get("bfloat16"):
        changes.in_bfloat16()
    arguments = changes.Batch(log, change.get("batch"), change.get("length")).install(asked["arguments"])
    try:
        with mode, device_tensors.NumberedDevices():
            _run(asked, arguments)
    except SystemExit as end:
        finish("exit", "" if end.code in (None, 0) else f"status {end.code}")
    except BaseException as error:
        if not after.reached:
            traceback.print_exc()
        finish("error", f"{type(error).__name__}: {error}"[:2000], _place(error, log.is_users))
    finish("end")


def _write(answer: int, seen: dict[str, Any]) -> None:
    """The end of this process: nothing of the script runs after it."""
    body = json.dumps(seen).encode()
    _writing.acquire()  # whoever comes later waits for the end
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(answer, rest) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(asked: dict[str, Any], arguments: list[str]) -> None:
    """As `python script.py` and `python -m module` do."""
    sys.argv = [asked["script"] or asked["module"], *arguments]
    if asked["script"]:
        script = os.path.abspath(asked["script"])
        sys.path.insert(0, os.path.dirname(script))
        runpy.run_path(script, run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)


def _place(error: BaseException, is_users: Callable[[str], bool]) -> str:
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_users(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else ""
