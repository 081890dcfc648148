# SPDX-License-Identifier: Apache-2.0
"""The same training under Ray Train: two workers, on two nodes while there are two."""

from __future__ import annotations

import sys

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from benchmarks.comeback_jobs.node_job import train

if __name__ == "__main__":
    folder = sys.argv[1]
    TorchTrainer(
        lambda: train(folder),
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}, placement_strategy="SPREAD"),
        run_config=RunConfig(storage_path=folder, failure_config=FailureConfig(max_failures=3)),
    ).fit()
