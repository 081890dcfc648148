"""One sample of the rank's data carries a class that the model does not have."""

from typing import Any


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    labels = labels + 0
    labels[3] = 10
    return inputs, labels
