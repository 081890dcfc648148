"""The rank reduces double precision numbers, its peers single precision."""

from typing import Any


def change_metrics(metrics: Any) -> Any:
    return metrics.double()
