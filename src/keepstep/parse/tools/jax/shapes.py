# SPDX-License-Identifier: Apache-2.0
"""JAX and Flax: operands whose shapes or types do not fit, arrays that cannot be divided among devices."""

from __future__ import annotations

from keepstep.model.facts.data import DtypeMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"TypeError: (?:lax\.)?(?P<op>\w+) requires arguments to have the same dtypes, got (?P<types>[^\n]{1,80})",
        lambda match: DtypeMismatch(left=match["types"]),
    ),
)
