# SPDX-License-Identifier: Apache-2.0
"""Numbers of parameters that ranks report to each other, and those that no model has."""

from __future__ import annotations

from keepstep.rules.api import ModelsDiffer, lazy_pattern

MOST = 1_000_000
"""Parameter tensors of one model: the largest have thousands. More is another collective's data, read as a number."""
_COUNT = lazy_pattern(r" params, while rank \d{1,9} has (?:inconsistent )?(?P<there>-?\d{1,20}) params")


def of_no_model(fact: ModelsDiffer) -> bool:
    """Whether the number of parameters that a rank received is one that no model has."""
    said = _COUNT.search(fact.detail or "")
    return said is not None and not 0 <= int(said["there"]) < MOST
