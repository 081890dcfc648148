# SPDX-License-Identifier: Apache-2.0
"""torch's refusals of a tensor for the number of its dimensions, or for one size that a layer cannot take.

Modules (normalization, recurrent cells, attention, losses), pooling, interpolation, BLAS and indexing each word it in their own way.
"""

from __future__ import annotations

from keepstep.core.facts.data import ShapeMismatch
from keepstep.parse.scan.signature import by_hand, signature

_D = r"\d-?D(?: \((?:un)?batched\))?"

SIGNATURES = (
    # torch.nn: how many dimensions an input must have
    signature(
        rf"Error: (?:[\w.]{{1,40}}(?:\(\))?: )?[Ee]xpected (?P<right>(?:at least )?{_D}(?:,? or (?:{_D}|higher dimensionality))?) "
        rf"(?:input|tensor)s?(?: tensor)?(?: \(|, (?:but )?)[Gg]ot:? ?(?P<left>[^\n)]{{1,60}})",
        ShapeMismatch,
        anchors=by_hand(
            "tensors and inputs are on many lines",
            "D input (got ",
            "dimensionality input (got ",
            "D tensor, but got",
            "D input tensor, but got",
            "D input, but got",
            "D tensor, got ",
        ),
    ),
    signature(
        r"Error: Got (?P<left>\dD input), but (?P<op>\w{1,20}) mode needs (?P<right>\dD input)",
        ShapeMismatch,
    ),
    signature(r"Error: input must have (?P<right>\d dimensions), got (?P<left>\d)", ShapeMismatch),
    signature(
        r"(?:Expected input to be|expected input to be) (?P<right>\d-?D or \d-?D),?(?: but)? (?:got|received) (?P<left>\d-?D)",
        ShapeMismatch,
    ),
    signature(
        r"Error: For (?P<left>(?:un)?batched \d-D) (?:input|`query`), (?P<right>(?:hx|cx|`key`|expected `key`|expected `key_padding_mask`)[^\n]{0,80})",
        ShapeMismatch,
    ),
    signature(
        r"Error: (?:For (?:un)?batched \([23]-D\) `query`, expected `\w{1,20}`|query should be unbatched 2D or batched 3D tensor but received)",
        ShapeMismatch,
        op="attention",
    ),
    signature(
        r"Expected hidden(?:\[\d\])? size (?P<right>\([\d, ]{1,40}\)), got (?P<left>[\[(][\d, ]{1,40}[\])])",
        ShapeMismatch,
    ),
    signature(r"was expecting embedding dimension of (?P<right>\d+), but got (?P<left>\d+)", ShapeMismatch),
    signature(
        r"The shape of the \dD attn_mask is (?P<left>torch\.Size\([^)\n]{1,40}\)), but should be (?P<right>\([^)\n]{1,40}\))",
        ShapeMismatch,
    ),
    signature(r"[Ee]xpecting key_padding_mask shape of [^\n]{1,60}, but got ", ShapeMismatch, op="attention"),
    # Losses
    signature(r"multi-target not supported", ShapeMismatch, op="a loss, whose target must have one dimension"),
    signature(
        r"(?:[01]D target tensor expects [12]D input tensors, but found inputs with sizes|For 1D input, 1D target must have size 1, but got)",
        ShapeMismatch,
        op="a loss",
    ),
    # Convolution, pooling, padding
    signature(r"Kernel size can't be greater than actual input size", ShapeMismatch, op="a convolution"),
    signature(r"Calculated output size: \([^)\n]{1,60}\)\. Output size is too small", ShapeMismatch, op="a pooling"),
    signature(
        r"(?:Padding size should be less than the corresponding input dimension|"
        r"Length of pad should be no more than twice the number of dimensions of the input)",
        ShapeMismatch,
        op="padding",
    ),
    signature(r"grid_sampler\(\): expected [^\n]{0,20}(?:grid|input)[^\n]{0,60}", ShapeMismatch, op="grid_sample"),
    # BLAS
    signature(
        r"Error: (?P<op>batch[12]|mat[12]?|self|vec[12]?|tensor|input|weight) must be (?P<right>a (?:3D tensor|matrix|vector))\b",
        ShapeMismatch,
    ),
    signature(
        r"Error: (?:1D tensors expected, but got|2D tensor expected, got|matrix expected, got|matrices expected, got|vector \+ matrix @ vector expected)",
        ShapeMismatch,
        op="a product",
    ),
    # Indexing and views
    signature(
        r"Index tensor must have the same number of dimensions as (?:input|self|src) tensor",
        ShapeMismatch,
        op="gather or scatter",
    ),
    signature(
        r"Expected index (?P<left>\[[\d, ]{0,60}\]) to be (?:smaller than|no larger than) (?:self|src) (?P<right>\[[\d, ]{0,60}\])",
        ShapeMismatch,
    ),
    signature(r"number of dims don't match in permute", ShapeMismatch, op="permute"),
    signature(r"Provided sizes [^\n]{1,60} don't multiply up to the size of dim ", ShapeMismatch, op="unflatten"),
    signature(
        r"the number of sizes provided \(\d+\) must be greater or equal to the number of dimensions in the tensor",
        ShapeMismatch,
        op="expand",
    ),
    signature(
        r"Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ShapeMismatch,
        op="repeat",
    ),
)
