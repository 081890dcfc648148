# SPDX-License-Identifier: Apache-2.0
"""Keras 1 to 3: what ``fit`` says about its input and its stopping, and what it does not support."""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.data import DtypeMismatch, EndOfData, ShapeMismatch, UnevenShards
from keepstep.model.facts.sync import ForkOrThread
from keepstep.model.facts.training import Phase, PhaseSeen
from keepstep.parse.scan.signature import signature

_AS_A_WARNING = lazy_pattern(r"(?:^|\.py:\d+: )UserWarning: $")

_DIMENSIONS = r"[\[(][^\])\n]{0,80}[\])]"


SIGNATURES = (
    signature(
        r"[Yy]our (?:input|dataset(?: iterator)?) ran out of data",
        lambda m: EndOfData(what="ran out of data", warned=bool(_AS_A_WARNING.search(m.string[: m.start()]))),
    ),
    signature(
        r"Number of samples \d+ is less than samples required for specified batch_size",
        EndOfData,
        what="fewer samples than batch size and steps need",
    ),
    signature(
        r"(?:Unexpected result of `(?:train|test|predict)_function` \(Empty Logs\)|Empty training data)",
        UnevenShards,
        detail="a rank got no batch at all",
    ),
    signature(r"Expect(?:ed)? x to be a non-empty array or dataset", UnevenShards, detail="a rank got no batch at all"),
    signature(
        r"The dataset(?: iterator)? (?:is|was) empty|No data (?:was )?provided to `?(?:fit|evaluate)|`?steps_per_epoch`?=0|Dataset length is 0",
        UnevenShards,
        detail="a rank got no batch at all",
    ),
    signature(r"Early ?[Ss]topping conditions are met", PhaseSeen, phase=Phase.STOPPING_EARLY),
    signature(r"(?i)epoch \d+: early stopping", PhaseSeen, phase=Phase.STOPPING_EARLY),
    signature(
        r"(?i)\bearly[- ]stopping (?:triggered|reached|activated|at|after|now)\b", PhaseSeen, phase=Phase.STOPPING_EARLY
    ),
    signature(r"(?i)(?:stopping|stopped|exiting) early\b", PhaseSeen, phase=Phase.STOPPING_EARLY),
    signature(r"Shapes (?P<left>\([^)]*\)) and (?P<right>\([^)]*\)) are incompatible", ShapeMismatch),
    signature(
        r"Input \d+ (?:with name '[^'\n]{1,120}' )?of layer \"?'?[\w/]+\"?'? is incompatible with the layer: (?P<op>[^\n]{0,160})",
        ShapeMismatch,
    ),
    signature(
        r"[Ee]rror when checking (?P<op>\w+): expected (?P<left>\S+) to have[^\n]{0,60}? shape (?P<right>\([^)]*\))",
        ShapeMismatch,
    ),
    signature(
        r"Shape mismatch: The shape of labels \(received (?P<left>\([^)]*\))\) should equal the shape of logits except for the last "
        r"dimension \(received (?P<right>\([^)]*\))",
        ShapeMismatch,
        op="labels and logits",
    ),
    signature(
        r"`generator` yielded an element of shape (?P<left>\([^)]*\)) where an element of shape (?P<right>\([^)]*\)|<?unknown>?) was",
        ShapeMismatch,
        op="elements of the generator",
    ),
    signature(
        r"`generator` yielded an element that could not be converted to the expected type\. The expected type was (?P<left>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"`generator` yielded an element that did not match the expected structure",
        ShapeMismatch,
        op="elements of the generator",
    ),
    signature(
        r"Error: Shape must be (?:at (?:least|most) )?(?P<left>rank \d+) but is (?P<right>rank \d+)(?: for '(?P<op>[^'\n]{1,120})')?",
        ShapeMismatch,
    ),
    signature(r"Data cardinality is ambiguous", ShapeMismatch, op="x and y with different numbers of rows"),
    # Keras 3 does not run under every tf.distribute strategy
    signature(
        r"The dataset you passed contains (?P<what>\d+ batches, but you passed )[^\n]{0,200}We cannot draw that many steps",
        EndOfData,
    ),
    signature(
        r"the generator must yield at least one batch\. Received an empty generator",
        UnevenShards,
        detail="a generator gave no batch",
    ),
    signature(r"(?P<what>Your generator is NOT thread-safe)", ForkOrThread),
    signature(
        r"(?:The convolution operation resulted in an empty output\. Output shape|Argument `output` must have rank \(ndim\) `target\.ndim - 1`|"
        r"When passing a dataset to a Keras model, the arrays must be at least rank 1|y_true and y_pred have different structures)",
        ShapeMismatch,
        op="a layer or a loss",
    ),
    signature(
        rf"A target array with shape (?P<left>{_DIMENSIONS}) was passed for an output of shape (?P<right>{_DIMENSIONS})",
        ShapeMismatch,
        op="a loss",
    ),
    signature(
        r"The number of input channels must be evenly divisible by (?:kernel's in_channels|the number of groups)[^\n]{0,120}",
        ShapeMismatch,
        op="convolution",
    ),
    signature(
        r"must have the same (?:shape|rank), received \((?P<left>\([^)\n]{0,60}\)) vs (?P<right>\([^)\n]{0,60}\))",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"Arguments `target` and `output` must have the same (?:shape|rank)[^\n]{0,40}?target\.shape=(?P<left>\([^)\n]{0,60}\)), "
        r"output\.shape=(?P<right>\([^)\n]{0,60}\))",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"expects (?P<left>\d+) (?:(?:named )?input\(s\)|inputs)(?: with keys \[[^\]\n]{0,200}\])?, but it received (?P<right>\d+) input tensors",
        ShapeMismatch,
        op="a layer",
    ),
)
