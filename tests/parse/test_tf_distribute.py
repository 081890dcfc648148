# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.facts.sync import OutsideScope
from keepstep.parse.tools.tensorflow import distribute as tf_distribute


def test_an_assertion_of_keras_3s_update_step_tells_of_a_model_outside_of_the_scope() -> None:
    (block,) = tf_distribute.BLOCKS
    match = block.begin.pattern.search("    distribution.extended.update(")
    assert match is not None
    assert list(block.read(match, iter(["AssertionError"]))) == [OutsideScope(what="the model")]
    assert list(block.read(match, iter(["ValueError: no gradients"]))) == []
