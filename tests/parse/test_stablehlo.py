# SPDX-License-Identifier: Apache-2.0
"""Programs of a newer StableHLO than their reader."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import SymbolMissing
from keepstep.parse.tools.jax import stablehlo as table

WORDINGS = [
    ("XlaRuntimeError: UNKNOWN: -:0:0: error: unknown vhlo type code: 33", "vhlo type code: 33"),
    ("-:0:0: error: unknown vhlo attribute code: 17", "vhlo attribute code: 17"),
    (
        "error: unregistered operation 'vhlo.sine_v2' found in dialect ('vhlo') that does not allow unknown operations",
        "vhlo.sine_v2",
    ),
    ("error: unregistered operation 'sdy.mesh' found in dialect ('sdy')", "sdy.mesh"),
    (
        "error: failed to deserialize portable artifact using StableHLO_v1.9.1",
        "failed to deserialize portable artifact using StableHLO_v1.9.1",
    ),
    (
        "error: failed to legalize operation 'vhlo.constant_v1' that was explicitly marked illegal",
        "vhlo.constant_v1",
    ),
    ("error: bytecode version 7 is newer than the current version 6", "bytecode version 7"),
]


@pytest.mark.parametrize(("text", "symbol"), WORDINGS)
def test_the_wording_is_read(text, symbol, read, holds):
    assert holds(read(table, text), SymbolMissing, symbol=symbol)


NEAR = [
    "-:0:0: note: in bytecode version 6 produced by: StableHLO_v1.7.1",
    "error: failed to legalize operation 'stablehlo.add' that was explicitly marked illegal",
    "the module is newer than the current one",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
