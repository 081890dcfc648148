"""The rank's input holds a NaN from some step on (NumPy)."""

from typing import Any


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs * float("nan"), labels
