# SPDX-License-Identifier: Apache-2.0
"""Which library a pipeline comes from, and how to look at it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol

from keepstep.check.live.sampling import Limit
from keepstep.errors import UserError
from keepstep.model.facts.pipeline import PipelineSeen


class PipelineKind(Protocol):
    """What one library's pipelines can be asked."""

    library: str

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None: ...

    def readable(self, dataset: Any) -> Iterable[Any]:
        """Something to read batches from that leaves the pipeline as it is; a UserError if there is none."""
        ...

    def limit(self, dataset: Any, seconds: float) -> Limit | None:
        """What takes the most time; None where that cannot be told."""
        ...


def kind_of(dataset: Any) -> PipelineKind:
    """The library of a pipeline, by its type."""
    tf, torch = sys.modules.get("tensorflow"), sys.modules.get("torch")
    if tf is not None and isinstance(dataset, tf.data.Dataset):
        from keepstep.check.live.tensorflow import TensorFlow

        return TensorFlow()
    if torch is not None and isinstance(dataset, torch.utils.data.DataLoader):
        from keepstep.check.live.torch import Torch

        return Torch()
    from keepstep.check.live.others import Grain, HuggingFace, Plain

    package = type(dataset).__module__.partition(".")[0]
    if package == "grain":
        return Grain()
    if package == "datasets":
        return HuggingFace()
    if not hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__"):
        raise UserError(f"a {type(dataset).__name__} is no pipeline: it cannot be iterated")
    return Plain()
