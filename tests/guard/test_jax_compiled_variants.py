# SPDX-License-Identifier: Apache-2.0
"""Which program of a jitted function a call executed, by its arguments. Plain values stand for arrays; no framework."""

from __future__ import annotations

from typing import Any

from keepstep.guard.adapters.jax.compiled_variants import Function, Kin, Variant
from keepstep.guard.adapters.jax.program_contracts import JaxProgram


class Array:
    dtype = "float32"

    def __init__(self, *shape: int, sharding: str = "whole") -> None:
        self.shape, self.sharding = shape, sharding


def flat(tree: Any) -> list[Any]:
    args, kwargs = tree
    return [*args, *kwargs.values()]


def variant(collective: bool, name: str = "mean") -> Variant:
    return Variant(Function(name, 1, JaxProgram(name, spans=True)), collective)


def kin() -> tuple[Kin, list[int]]:
    doubts: list[int] = []
    return Kin(flat, lambda: doubts.append(1)), doubts


def test_one_program_needs_no_look_at_the_arguments() -> None:
    made, _ = kin()
    first = variant(True)
    made.add(first, (Array(8, 4),), {})
    assert (made.one, made.several) == (first, False)
    again = Variant(first.function, True)
    made.add(again, (Array(8, 4, sharding="by row"),), {})
    assert (made.one, made.several) == (again, False), "the second step often has other shardings than the first"


def test_shapes_tell_programs_apart() -> None:
    made, doubts = kin()
    large = variant(True)
    small = Variant(large.function, True)
    made.add(large, (Array(8, 4),), {"train": True})
    made.add(small, (Array(6, 4),), {"train": True})
    assert made.several
    assert made.pick((Array(8, 4),), {"train": True}) is large
    assert made.pick((Array(6, 4),), {"train": True}) is small
    assert not doubts


def test_shardings_tell_programs_of_the_same_shapes_apart() -> None:
    made, doubts = kin()
    whole, split = variant(False), variant(True)
    made.add(whole, (Array(8, 4, sharding="whole"),), {})
    made.add(split, (Array(8, 4, sharding="by row"),), {})
    assert made.pick((Array(8, 4, sharding="by row"),), {}) is split
    assert made.pick((Array(8, 4, sharding="whole"),), {}) is whole
    assert not doubts
    made.pick((Array(8, 4, sharding="never seen"),), {})
    assert doubts, "with collectives or without: not known"


def test_static_arguments_tell_programs_apart() -> None:
    made, _ = kin()
    training, evaluation = variant(True), variant(False)
    made.add(training, (Array(8),), {"train": True})
    made.add(evaluation, (Array(8),), {"train": False})
    assert made.pick((Array(8),), {"train": False}) is evaluation


def test_a_program_of_this_process_alone_does_not_count() -> None:
    made, _ = kin()
    local, everywhere = variant(False), variant(True)
    local.counts = False
    made.add(local, (Array(2, 2),), {})
    assert (made.one, made.several) == (None, False)
    made.add(everywhere, (Array(16, 8),), {})
    assert made.pick((Array(2, 2),), {}) is None
    assert made.pick((Array(16, 8),), {}) is everywhere
