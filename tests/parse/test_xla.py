# SPDX-License-Identifier: Apache-2.0
"""Limits that device compilers name, and XLA's rendezvous."""

from __future__ import annotations

import pytest

from keepstep.model.facts.environment import InternalFault
from keepstep.parse.tools.xla import programs as table
from tests.parse.reading import reader

facts = reader(table)


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize("times", [1, 20, 500])
def test_a_lost_peer_behind_many_steps_that_were_handed_over_is_no_fault_of_the_framework(times: int) -> None:
    """XLA says it once for every step that waited for the one that failed."""
    why = "Gloo all-reduce failed: [external/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:6561: Connection reset by peer"
    text = f"jax.errors.JaxRuntimeError: INTERNAL: {'Error dispatching computation: ' * times}{why}\n"
    assert not any(isinstance(fact, InternalFault) for fact in facts(text))
    other = (
        f"jax.errors.JaxRuntimeError: INTERNAL: {'Error dispatching computation: ' * times}Buffer was never defined\n"
    )
    assert one(other, InternalFault).what == "Buffer was never defined"
