# SPDX-License-Identifier: Apache-2.0
"""PyTorch: operands whose shapes do not fit each other, or not the layer."""

from __future__ import annotations

from keepstep.model.facts.data import ShapeMismatch
from keepstep.parse.scan.signature import by_hand, signature

_D = r"\d-?D(?: \((?:un)?batched\))?"


SIGNATURES = (
    signature(
        r"mat1 and mat2 shapes cannot be multiplied \((?P<left>\d+x\d+) and (?P<right>\d+x\d+)\)",
        ShapeMismatch,
        op="matmul",
    ),
    signature(r"mat1 dim 1 must match mat2 dim 0", ShapeMismatch, op="matmul"),
    signature(
        r"a and b must have same reduction dim, but got \[(?P<left>[^\]\n]{1,60})\] X \[(?P<right>[^\]\n]{1,60})\]",
        ShapeMismatch,
        op="matmul",
    ),
    signature(
        r"Attempting to broadcast a dimension of length \S{1,20} at -?\d+! Mismatching argument at index \d+ had"
        r" (?:torch\.Size\()?\[?(?P<left>[^\]\n]{0,60})\]?\)?; but expected shape should be broadcastable to \[?(?P<right>[^\]\n]{0,60})",
        ShapeMismatch,
        op="broadcast",
    ),
    signature(r"size mismatch, m1: \[(?P<left>[\d x]+)\], m2: \[(?P<right>[\d x]+)\]", ShapeMismatch, op="matmul"),
    signature(
        r"size mismatch, got input \((?P<left>\d+)\), mat \((?P<op>[\dx]+)\), vec \((?P<right>\d+)\)", ShapeMismatch
    ),
    signature(
        r"The size of tensor a \((?P<left>\d+)\) must match the size of tensor b \((?P<right>\d+)\)", ShapeMismatch
    ),
    signature(
        r"Sizes of tensors must match except in dimension \d+\.[^\n]{0,40}?(?:[Ee]xpected|[Gg]ot)[^\n\d]{0,20}"
        r"(?P<left>\d+)[^\n\d]{1,20}(?P<right>\d+)",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(
        r"(?:stack|torch\.cat\(\)|cat)[^\n]{0,20} expects each tensor to be equal size, but got (?P<left>\[[^\]]*\]) "
        r"at entry \d+ and (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="stack",
    ),
    signature(r"shape '?(?P<left>\[[^\]]*\])'? is invalid for input of size (?P<right>\d+)", ShapeMismatch, op="view"),
    signature(
        r"Expected (?:input )?batch_size \((?P<left>\d+)\) to match target batch_size \((?P<right>\d+)\)",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"Using a target size \((?P<right>[^\n]{3,60}?)\) that is different to the input size \((?P<left>[^\n]{3,60}?)\) is deprecated\. Please ensure",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"Error: Target size \((?P<right>[^\n]{3,60}?)\) must be the same as input size \((?P<left>[^\n]{3,60}\))\)",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"Given groups=\d+, weight of size (?P<left>\[[^\]]*\]), expected input(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="convolution",
    ),
    signature(r"running_mean should contain (?P<left>\d+) elements not (?P<right>\d+)", ShapeMismatch, op="batch norm"),
    signature(
        r"Given normalized_shape=(?P<left>\[[^\]]*\]), expected input with shape", ShapeMismatch, op="layer norm"
    ),
    signature(
        r"The expanded size of the tensor \((?P<left>\d+)\) must match the existing size \((?P<right>\d+)\)",
        ShapeMismatch,
    ),
    signature(
        r"Expected size for first two dimensions of batch\d tensor to be: (?P<left>\[[^\]]*\]) but got: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="bmm",
    ),
    signature(r"einsum\(\)[^\n]{0,120}(?:does not broadcast|has size)[^\n]{0,80}", ShapeMismatch, op="einsum"),
    signature(
        r"The shape of the mask (?P<left>\[[^\]]*\]) at index \d+ does not match the shape of the indexed tensor (?P<right>\[[^\]]*\])",
        ShapeMismatch,
    ),
    signature(
        r"shape mismatch: (?:value tensor|indexing tensors|objects cannot be broadcast)[^\n]{0,120}", ShapeMismatch
    ),
    signature(
        r"output with shape (?P<left>\[[^\]]*\]) doesn't match the broadcast shape (?P<right>\[[^\]]*\])", ShapeMismatch
    ),
    signature(
        r"input\.size\(-1\) must be equal to input_size\. Expected (?P<left>\d+), got (?P<right>\d+)", ShapeMismatch
    ),
    signature(r"each element in list of batch should be of equal size", ShapeMismatch, op="collation"),
    signature(r"Trying to resize storage that is not resizable", ShapeMismatch, op="collation"),
    signature(
        r"Expected (?P<left>\d-dimensional input) for \d-dimensional weight[^\n]{0,60}but got (?P<right>\d-dimensional input)",
        ShapeMismatch,
        op="convolution",
    ),
    signature(
        r"Expected (?P<left>\dD \(unbatched\) or \dD \(batched\)) input to (?P<op>\w+), but got input of size: (?P<right>\[[^\]\n]{0,60}\])",
        ShapeMismatch,
    ),
    signature(r"input and target batch or spatial sizes don't match", ShapeMismatch, op="loss"),
    signature(
        r"size mismatch \(got input: (?P<left>\[[^\]\n]{1,60}\]) ?, target: (?P<right>\[[^\]\n]{1,60}\])",
        ShapeMismatch,
        op="loss",
    ),
    signature(r"split_with_sizes expects split_sizes to sum exactly to (?P<left>\d+)", ShapeMismatch, op="split"),
    signature(r"Tensors must have same number of dimensions: got (?P<left>\d+) and (?P<right>\d+)", ShapeMismatch),
    signature(
        r"(?P<op>[Gg]ather|Scatter|Broadcast|Reduce_add) got an input of invalid size: got (?P<left>\[[^\]]*\]|[\dx]+), but expected "
        r"(?P<right>\[[^\]]*\]|[\dx]+)",
        ShapeMismatch,
    ),
    signature(
        r"Input tensor at index \d+ has invalid shape (?P<left>\[[^\]]*\]), but expected (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="gather",
    ),
    signature(
        r"expected sequence of length (?P<left>\d+) at dim \d+ \(got (?P<right>\d+)\)", ShapeMismatch, op="collation"
    ),
    signature(
        r"only batches of spatial targets supported[^\n]{0,60}but got targets of (?:size|dimension): :? ?(?P<right>[^\n]{1,40})",
        ShapeMismatch,
        op="loss",
    ),
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
    signature(r"Error: Got (?P<left>\dD input), but (?P<op>\w{1,20}) mode needs (?P<right>\dD input)", ShapeMismatch),
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
