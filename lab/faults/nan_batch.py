"""The rank's input holds a NaN from some step on: its loss, then all ranks' weights, stop being numbers."""

from typing import Any


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs * float("nan"), labels
