# SPDX-License-Identifier: Apache-2.0
"""Every kind of fact, by name, with the methods that hypothesis must see, which are otherwise made on first use."""

from __future__ import annotations

import dataclasses
import sys

from keepstep.base.lazy_dataclass import complete
from keepstep.model.codec import fact_types

KINDS = sorted(fact_types().values(), key=lambda kind: kind.__name__)

for module in {kind.__module__ for kind in KINDS}:
    for part in vars(sys.modules[module]).values():
        if isinstance(part, type) and dataclasses.is_dataclass(part):
            complete(part)
