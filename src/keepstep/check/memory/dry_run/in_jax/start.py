# SPDX-License-Identifier: Apache-2.0
"""The process of the dry run, for a script that trains with JAX."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

from keepstep.check.memory.dry_run.in_jax import tpu
from keepstep.check.memory.dry_run.storage_log import StorageLog

POOL = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR")
"""Variables that say how much of a device JAX may take."""


def try_jax(
    asked: dict[str, Any],
    confined: str,
    log: StorageLog,
    run: Callable[[], None],
    write: Callable[[dict[str, Any]], None],
) -> None:
    """Run the script until its largest program has been fed its own results, or to its end."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    flags = os.environ.get("XLA_FLAGS", "")
    if asked["ranks"] > 1 or "device_count" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={asked['ranks']}".strip()
    if asked["tpu"]:
        tpu.begin()
    import jax
    from jax._src import core

    from keepstep.check.memory.dry_run.in_jax import gpu_answers, making
    from keepstep.check.memory.dry_run.in_jax.arrays import DryArray
    from keepstep.check.memory.dry_run.in_jax.programs import Programs
    from keepstep.check.memory.dry_run.in_jax.trace import DryTrace

    DryArray.guessed = log.guessed
    programs = Programs(asked["scratch"], log.guessed)
    if asked["tpu"]:
        programs.platform, programs.chip = "tpu", asked["tpu"]

    def finish(ended: str, error: str = "", place: str = "") -> None:
        about = {"framework": "jax", "jax": jax.__version__, "confined": confined}
        about |= {name.lower(): os.environ.get(name) for name in POOL}
        if asked["tpu"] and not error:
            try:
                about["compiled"] = programs.compiled()
            except Exception as failed:
                traceback.print_exc()
                ended, error = "error", f"the compiler for TPUs: {type(failed).__name__}: {failed}"[:2000]
        seen = {"ended": ended, "error": error, "place": place, "steps": trace.steps, "programs": programs.as_json()}
        write({**log.as_json(), **seen, **about})

    trace = DryTrace(log, programs, finish)
    gpu_answers.install(trace, "tpu" if asked["tpu"] else "gpu")
    making.install(trace)
    try:
        with core.set_current_trace(trace):
            run()
    except SystemExit as end:
        finish("exit", "" if end.code in (None, 0) else f"status {end.code}")
    except BaseException as error:
        traceback.print_exc()
        lines = [
            f"{frame.f_code.co_filename}:{line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            if log.is_users(frame.f_code.co_filename)
        ]
        finish("error", f"{type(error).__name__}: {error}"[:2000], lines[-1] if lines else "")
    finish("end")
