# SPDX-License-Identifier: Apache-2.0
"""A layer of a torch model whose result, or whose gradient on the way back, is wrong in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.silent_jobs.faults import SilentFault, strike

PLACES = ("result of {}.0", "result of {}.2", "gradient of {}.0")
"""What is wrong first: a layer's result, or what the last layer sends back to the first."""


def break_layer(layers: Any, drawn: SilentFault, is_on: Callable[[], bool], struck: Callable[[str], None]) -> None:
    """``struck`` hears what a finding should name, whenever bits have changed: a stuck one may be right already."""
    place = PLACES[int(drawn.tensor * len(PLACES))]
    in_backward = place.startswith("gradient")
    layer = layers[0 if place.endswith("0") and not in_backward else 2]
    compute = layer.forward

    def wrong(value: Any) -> Any:
        value = value.detach().clone()
        if is_on() and strike(value.data_ptr(), value.numel(), drawn):
            struck(place)
        return value

    class Change(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            return value.clone() if in_backward else wrong(value)

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            return wrong(slope.contiguous()) if in_backward else slope

    def forward(value: Any) -> Any:
        return compute(Change.apply(value)) if in_backward else Change.apply(compute(value))

    layer.forward = forward
