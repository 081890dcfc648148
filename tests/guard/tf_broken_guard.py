# SPDX-License-Identifier: Apache-2.0
"""The tests' training with a guard that BROKEN breaks: all its parts, or the service; or whole, with lean steps."""

from __future__ import annotations

import os
from typing import Any

os.environ["KEEPSTEP"] = "on"

import tensorflow as tf
import tf_training

from keepstep.guard import startup_hook
from keepstep.guard.adapters.tensorflow import batches, exchange, graphs, traced_functions
from keepstep.guard.agree import contract


def fails(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("broken for the test")


def main() -> None:
    if os.environ["BROKEN"] == "lean":
        startup_hook.session().every = 5
    elif os.environ["BROKEN"] == "all":
        tf.__version__ = "not a version"
        traced_functions.read_graph = graphs.read_graph = fails
        batches.FunctionBatches.see = fails
        exchange.ConfigKeys.get = fails
    else:
        exchange.ConfigKeys.put = exchange.ConfigKeys.get = fails
    contract.PATIENCE_S = 1.0
    startup_hook.start()
    tf_training.main()


if __name__ == "__main__":
    main()
