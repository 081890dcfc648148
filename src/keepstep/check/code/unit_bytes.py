# SPDX-License-Identifier: Apache-2.0
"""Units as bytes, on their way between processes and in the cache: plain things only, so unpacking runs no code."""

from __future__ import annotations

import io
import pickle
from typing import Any

from keepstep.parse.code.unit import FunctionSeen, ReturnedValue, Unit

BROKEN = (pickle.UnpicklingError, EOFError, AttributeError, TypeError, ValueError, IndexError, KeyError)
"""What :func:`unpacked` may raise."""


class OnlyPlain(pickle.Unpickler):
    """Makes nothing but what Python has built in."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a unit")


def packed(unit: Unit) -> bytes:
    functions = [(*each[:8], [_plain(given) for given in each.returns], each.decorated) for each in unit.functions]
    return pickle.dumps(tuple(unit._replace(functions=functions)), protocol=5)  # type: ignore[arg-type]


def unpacked(data: bytes) -> Unit:
    unit = Unit._make(OnlyPlain(io.BytesIO(data)).load())
    for number, each in enumerate(unit.functions):
        returns = tuple([_given_back(given) for given in each[8]])
        unit.functions[number] = FunctionSeen(*each[:8], returns, each[9])
    return unit


def _plain(given: ReturnedValue) -> tuple[Any, ...]:
    return (*given[:5], [tuple(each) for each in given.elements], given.where)


def _given_back(plain: tuple[Any, ...]) -> ReturnedValue:
    return ReturnedValue._make((*plain[:5], tuple([ReturnedValue._make(each) for each in plain[5]]), plain[6]))
