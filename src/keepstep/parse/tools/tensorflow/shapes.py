# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's kernels say about operands that do not fit: queues, gathers, stacks, convolutions, scatters.

There are hundreds of such errors. The frequent ones are here by their messages; the others are known by their status
(an invalid argument) together with what they mention (shapes, dimensions).
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import BatchNotDivisible, EmptyBatch, ShapeMismatch
from keepstep.parse.scan.signature import signature

_SHAPE = r"\[[^\]\n]{0,80}\]"
_HEALTHY = lazy_pattern(r"does not indicate an error|You must feed a value for placeholder")


def _supposed(match: re.Match[str]) -> Fact | None:
    return None if _HEALTHY.search(match.string) else ShapeMismatch(op=match["op"].strip(" .,:"), supposed=True)


def _ensured_shape(match: re.Match[str]) -> Fact:
    """TensorFlow's EnsureShape; a batch that only has too few rows is the last one of the data."""
    got, wanted = (match[name].split(",") for name in ("left", "right"))
    if (
        len(got) == len(wanted) > 0
        and got[1:] == wanted[1:]
        and (rows := whole(got[0])) is not None
        and rows < (whole(wanted[0]) or 0)
    ):
        return EmptyBatch(what="a tensor of a fixed shape")
    return ShapeMismatch(left=f"[{match['left']}]", right=f"[{match['right']}]", op="ensure_shape")


_DIMENSIONS = r"[\[(][^\])\n]{0,80}[\])]"


SIGNATURES = (
    signature(
        rf"Shape mismatch in tuple component \d+\. Expected (?P<left>{_SHAPE}), got (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="elements of a queue",
    ),
    signature(
        rf"Expected dimension (?P<left>\d+) at axis \d+ of the input shaped {_SHAPE} but got dimension (?P<right>\d+)",
        ShapeMismatch,
        op="einsum",
    ),
    signature(
        rf"ConcatOp : Ranks of all (?:input tensors|inputs) should match: shape\[0\] = (?P<left>{_SHAPE}) vs\. shape\[\d+\] = (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(r"In\[0\] mismatch In\[1\] shape: (?P<left>\d+) vs\. (?P<right>\d+)", ShapeMismatch, op="matmul"),
    signature(
        r"In\[0\] and In\[1\] (?:must have compatible batch dimensions|ndims must be|has different ndims)"
        rf"(?:[^\n]{{0,20}}?(?P<left>{_SHAPE}) vs\. (?P<right>{_SHAPE}))?",
        ShapeMismatch,
        op="matmul",
    ),
    signature(
        r"input and filter must have the same depth: (?P<left>\d+) vs (?P<right>\d+)", ShapeMismatch, op="convolution"
    ),
    signature(
        r"input depth must be evenly divisible by filter depth: (?P<left>\d+) vs (?P<right>\d+)",
        ShapeMismatch,
        op="convolution",
    ),
    signature(
        r"(?P<op>Conv\dD\w*): Size of out_backprop doesn't match computed: actual = (?P<left>\d+), computed = (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(r"Computed output size would be negative: (?P<left>-\d+)", ShapeMismatch, op="convolution or pooling"),
    signature(
        r"Negative dimension size caused by subtracting (?P<right>\d+) from (?P<left>\d+)(?: for '(?P<op>[^'\n]{1,120})')?",
        ShapeMismatch,
    ),
    signature(r"Must have updates\.shape = indices\.shape \+ params\.shape\[1:\]", ShapeMismatch, op="scatter"),
    signature(
        r"(?:Inner|Outer) dimensions of output shape must match (?:inner|outer) dimensions of updates shape",
        ShapeMismatch,
        op="scatter",
    ),
    signature(
        r"(?:segment_?ids should be (?:the same size as|a vector of)|does not start with segment_ids\.shape)[^\n]{0,80}",
        ShapeMismatch,
        op="segments",
    ),
    signature(
        r"Must provide as many biases as the (?:last dimension|channel dimension) of the input tensor: "
        rf"(?P<left>{_SHAPE}) vs\. (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="bias",
    ),
    signature(
        r"(?P<op>scale|offset|estimated_mean|estimated_variance) must have the same number of elements as the channels of x, got "
        r"(?P<left>\d+) and (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(
        r"Expected multiples argument to be a vector of length (?P<left>\d+) but got length (?P<right>\d+)",
        ShapeMismatch,
        op="tile",
    ),
    signature(
        r"transpose expects a vector of size (?P<left>\d+)\. But input\(1\) is a vector of size (?P<right>\d+)",
        ShapeMismatch,
        op="transpose",
    ),
    signature(r"Attempted to pad to a smaller size than the input element", ShapeMismatch, op="padded batch"),
    signature(
        r"TensorArray(?: \S{1,80})? ?(?:has inconsistent shapes|[^\n]{0,120}which is incompatible with the TensorArray's inferred element shape)",
        ShapeMismatch,
        op="a tensor array",
    ),
    signature(
        r"Input shape axis \d+ must equal (?P<left>\d+), got shape (?P<right>\[[^\]\n]{0,80}\])",
        ShapeMismatch,
        op="unstack",
    ),
    signature(
        r"Not enough time for target transition sequence \(required: (?P<left>\d+), available: (?P<right>\d+)\)",
        ShapeMismatch,
        op="CTC loss",
    ),
    signature(
        r"(?:InvalidArgumentError: |(?<![A-Za-z])Invalid argument: |\) INVALID_ARGUMENT: )(?!\s)"
        r"(?=[^\n]{0,240}\b(?:must|should|[Ee]xpected|[Mm]ismatch|incompatible|[Ii]ncompatible|does not match|don't match|doesn't match|"
        r"do not match|but got|not equal|different)\b)"
        r"(?P<op>(?:[^\n]{0,200}?)\b(?:[Ss]hapes?|[Dd]imensions?|\d-[Dd]imensional|[Rr]anks?|ndims)\b[^\n]{0,60})",
        _supposed,
    ),
    signature(
        r"Shape of tensor \S{1,200} \[(?P<left>[\d,]{1,80})\] is not compatible with expected shape \[(?P<right>[\d,?]{1,80})\]",
        _ensured_shape,
    ),
    signature(r"Incompatible shapes: (?P<left>\[[^\]]*\]) vs\.? (?P<right>\[[^\]]*\])", ShapeMismatch),
    signature(
        r"logits and labels must (?:be broadcastable|have the same (?:shape|first dimension|size))(?:, got |: ?)[^\n]{0,20}"
        r"logits(?:_size|_shape)? ?(?:shape )?=?(?P<left>[\[(][^\])]*[\])]) (?:and )?labels(?:_size|_shape)? ?(?:shape )?"
        r"=?(?P<right>[\[(][^\])]*[\])])",
        ShapeMismatch,
        op="loss",
    ),
    signature(r"logits and labels must (?:be broadcastable|have the same)", ShapeMismatch, op="loss"),
    signature(
        r"Dimensions? (?:\d+ in both shapes )?must be equal, but are (?P<left>\d+) and (?P<right>\d+)", ShapeMismatch
    ),
    signature(
        r"Matrix size-incompatible: In\[0\]: (?P<left>\[[^\]]*\]), In\[1\]: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="matmul",
    ),
    signature(
        r"Input to reshape is a tensor with (?P<left>\d+) values, but the requested shape (?:has|requires a multiple of) (?P<right>\d+)",
        ShapeMismatch,
        op="reshape",
    ),
    signature(
        r"ConcatOp : Dimensions? (?:of inputs should match|\d+ in both shapes must be equal): "
        r"shape\[0\] = (?P<left>\[[^\]]*\]) vs\. shape\[\d+\] = (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(
        r"Cannot feed value of shape (?P<left>\([^)]*\)) for Tensor [^\n]{0,80}?which has shape '?(?P<right>\([^)]*\))",
        ShapeMismatch,
        op="feed",
    ),
    signature(
        r"Number of ways to split should evenly divide the split dimension, but got split_dim \d+ \(size = "
        r"(?P<batch>\d+)\) and num_split (?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(r"Dimension size must be evenly divisible by (?P<parts>\d+) but is (?P<batch>\d+)", BatchNotDivisible),
    signature(
        r"Cannot reshape a tensor with (?P<left>\d+) elements to shape (?P<right>\[[^\]\n]{0,80}\])",
        ShapeMismatch,
        op="reshape",
    ),
    signature(
        r"logits and labels must be (?:the )?same size: logits_size=(?P<left>\[[^\]]*\]) labels_size=(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="loss",
    ),
    signature(r"\brequired broadcastable shapes", ShapeMismatch, op="broadcast"),
    signature(
        r"Input tensor shapes do not match for distributed tensor inputs", ShapeMismatch, op="the batches of replicas"
    ),
    signature(
        r"Structure of Python function inputs does not match input_signature|Python inputs incompatible with input_signature"
        r"|Binding inputs to tf\.function failed due to `Can not cast TensorSpec\(",
        ShapeMismatch,
        op="the inputs of a tf.function",
    ),
    signature(r"TensorArray has inconsistent shapes\.", ShapeMismatch, op="TensorArray"),
    signature(
        r"Tried to set a tensor with incompatible shape at a list index\. Item element shape: (?P<left>\[[^\]]*\]) list shape: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="tensor list",
    ),
    signature(
        r"All dimensions except \d+ must match\. +Input \d+ has shape (?P<left>\[[^\]\n]*\]) and doesn't match input \d+ with shape "
        r"(?P<right>\[[^\]\n]*\])",
        ShapeMismatch,
        op="concat",
    ),
    signature(
        r"Shapes of all inputs must match: values\[\d+\]\.shape = (?P<left>\[[^\]]*\]) != values\[\d+\]\.shape = (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="stack",
    ),
    signature(r"Inputs to operation (?P<op>\S{1,120}) of type \w+ must have the same size and shape", ShapeMismatch),
    signature(
        r"The two structures don't have the same (?:nested structure|number of elements)",
        ShapeMismatch,
        op="structures of tensors",
    ),
    signature(
        rf"(?:Shapes (?P<left>{_DIMENSIONS}) and (?P<right>{_DIMENSIONS})|Dimensions \d+ and \d+) are not compatible",
        ShapeMismatch,
    ),
    signature(
        r"Tensor (?P<op>\S{1,120}) must have (?P<right>rank (?:at least |in )?[^\n.]{1,40})\.\s+Received (?P<left>rank \d+)",
        ShapeMismatch,
    ),
    signature(
        rf"Error: [^\n]{{0,80}}Expected scalar shape(?: for (?P<op>\S{{1,120}}))?, saw shape: (?P<left>{_DIMENSIONS})",
        ShapeMismatch,
    ),
    signature(
        r"Asking for tensor of (?P<right>(?:at (?:least|most) )?\d+ dimensions) from a tensor of (?P<left>\d+ dimensions)",
        ShapeMismatch,
    ),
    signature(r"Check failed: 1 == NumElements\(\) \(1 vs\. (?P<left>\d+)\)", ShapeMismatch, op="a scalar"),
)
