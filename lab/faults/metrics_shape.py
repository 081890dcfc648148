"""The rank reduces a tensor of another length than its peers."""

from typing import Any


def change_metrics(metrics: Any) -> Any:
    return metrics.repeat(4)
