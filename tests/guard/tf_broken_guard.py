# SPDX-License-Identifier: Apache-2.0
"""The training of the tests with a guard that is broken in the ways that BROKEN names: all of its parts, or the service; or not
broken, and with most steps lean."""

from __future__ import annotations

import os
from typing import Any

os.environ["KEEPSTEP"] = "on"

import tensorflow as tf
import tf_training

from keepstep.guard import contract, start
from keepstep.guard.adapters import tensorflow_batches, tensorflow_exchange, tensorflow_graphs, tensorflow_programs


def fails(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("broken for the test")


def main() -> None:
    if os.environ["BROKEN"] == "lean":
        start.session().every = 5
    elif os.environ["BROKEN"] == "all":
        tf.__version__ = "not a version"
        tensorflow_programs.read_graph = tensorflow_graphs.read_graph = fails
        tensorflow_batches.FunctionBatches.see = fails
        tensorflow_exchange.ConfigKeys.get = fails
    else:
        tensorflow_exchange.ConfigKeys.put = tensorflow_exchange.ConfigKeys.get = fails
    contract.PATIENCE_S = 1.0
    start.start()
    tf_training.main()


if __name__ == "__main__":
    main()
