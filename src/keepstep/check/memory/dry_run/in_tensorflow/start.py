# SPDX-License-Identifier: Apache-2.0
"""The process of the dry run, for a script that trains with TensorFlow or Keras on it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

from keepstep.check.memory.dry_run.storage_log import StorageLog


def try_tensorflow(
    asked: dict[str, Any],
    confined: str,
    log: StorageLog,
    run: Callable[[], None],
    write: Callable[[dict[str, Any]], None],
) -> None:
    """Run the script until a function that changes variables is called a second time, or to its end."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from keepstep.check.memory.dry_run.in_tensorflow.functions import Functions

    def finish(ended: str, error: str = "", place: str = "") -> None:
        if not error and not functions.steps:
            ended, error = "error", "no function changed a variable: the script trains in no way that is known here"
        about = {"framework": "tensorflow", "tensorflow": tf.__version__, "confined": confined}
        about |= {"uncompiled": functions.uncompiled, "programs": functions.programs}
        write({**log.as_json(), "ended": ended, "error": error, "place": place, "steps": functions.steps, **about})

    functions = Functions(log, lambda: finish("steps"), on_gpu=not asked["cpu"])
    functions.install()
    try:
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
