# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: strategies, scopes, TF_CONFIG, cluster specifications, sharding of input."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import OutsideScope
from keepstep.parse.scan.block import block


def _variable_refused(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """Keras 3's optimizer hands its variables to the strategy, which asserts without a message that it owns them."""
    if next(lines, "").strip() == "AssertionError":
        yield OutsideScope(what="the model")


BLOCKS = (block(r"^ *distribution\.extended\.update\($", _variable_refused),)
