# SPDX-License-Identifier: Apache-2.0
"""Operands that do not fit each other, in the words of torch, TensorFlow, JAX and NumPy."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, EmptyBatch, ShapeMismatch
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.numbers import whole
from keepstep.parse.scan.signature import signature

_KINDS = lazy_pattern(r"(?i)\b(Half|BFloat16|Float|Double|Long|Int|Byte|Bool|ComplexFloat)(?:Tensor)?\b")


def _tensor_types(match: re.Match[str]) -> Fact | None:
    """torch names type and device in one word: only a differing type is a dtype mismatch."""
    left, right = _KINDS.search(match["left"]), _KINDS.search(match["right"])
    if left is None or right is None or left[1].lower() == right[1].lower():
        return None
    return DtypeMismatch(left=match["left"].strip(), right=match["right"].strip())


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


SIGNATURES = (
    signature(
        r"Shape of tensor \S{1,200} \[(?P<left>[\d,]{1,80})\] is not compatible with expected shape \[(?P<right>[\d,?]{1,80})\]",
        _ensured_shape,
    ),
    # Shapes: torch
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
        r"size mismatch, got input \((?P<left>\d+)\), mat \((?P<op>[\dx]+)\), vec \((?P<right>\d+)\)",
        ShapeMismatch,
    ),
    signature(
        r"The size of tensor a \((?P<left>\d+)\) must match the size of tensor b \((?P<right>\d+)\)",
        ShapeMismatch,
    ),
    signature(
        r"Sizes of tensors must match except in dimension \d+\.[^\n]{0,40}?(?:[Ee]xpected|"
        r"[Gg]ot)[^\n\d]{0,20}"
        r"(?P<left>\d+)[^\n\d]{1,20}(?P<right>\d+)",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(
        r"(?:stack|torch\.cat\(\)|cat)[^\n]{0,20} expects each tensor to be equal size, but got "
        r"(?P<left>\[[^\]]*\]) "
        r"at entry \d+ and (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="stack",
    ),
    signature(
        r"invalid argument \d+: Sizes of tensors must match except in dimension \d+\. Got (?P<left>\d+) and "
        r"(?P<right>\d+)",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(
        r"shape '?(?P<left>\[[^\]]*\])'? is invalid for input of size (?P<right>\d+)",
        ShapeMismatch,
        op="view",
    ),
    signature(
        r"Expected (?:input )?batch_size \((?P<left>\d+)\) to match target batch_size \((?P<right>\d+)\)",
        ShapeMismatch,
        op="loss",
    ),
    signature(
        r"Using a target size \((?P<right>[^\n]{3,60}?)\) that is different to the input size "
        r"\((?P<left>[^\n]{3,60}?)\) is deprecated\. Please ensure|ValueError: Target size "
        r"\((?P<op>[^\n]{3,60})\) "
        r"must be the same as input size",
        ShapeMismatch,
    ),
    signature(
        r"Given groups=\d+, weight of size (?P<left>\[[^\]]*\]), expected input(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="convolution",
    ),
    signature(
        r"running_mean should contain (?P<left>\d+) elements not (?P<right>\d+)",
        ShapeMismatch,
        op="batch norm",
    ),
    signature(
        r"Given normalized_shape=(?P<left>\[[^\]]*\]), expected input with shape",
        ShapeMismatch,
        op="layer norm",
    ),
    signature(
        r"The expanded size of the tensor \((?P<left>\d+)\) must match the existing size \((?P<right>\d+)\)",
        ShapeMismatch,
    ),
    signature(
        r"Expected size for first two dimensions of batch\d tensor to be: (?P<left>\[[^\]]*\]) but got: "
        r"(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="bmm",
    ),
    signature(
        r"einsum\(\)[^\n]{0,120}(?:does not broadcast|has size)[^\n]{0,80}",
        ShapeMismatch,
        op="einsum",
    ),
    signature(
        r"The shape of the mask (?P<left>\[[^\]]*\]) at index \d+ does not match the shape of the indexed "
        r"tensor "
        r"(?P<right>\[[^\]]*\])",
        ShapeMismatch,
    ),
    signature(
        r"shape mismatch: (?:value tensor|indexing tensors|objects cannot be broadcast)[^\n]{0,120}",
        ShapeMismatch,
    ),
    signature(
        r"output with shape (?P<left>\[[^\]]*\]) doesn't match the broadcast shape (?P<right>\[[^\]]*\])",
        ShapeMismatch,
    ),
    signature(
        r"input\.size\(-1\) must be equal to input_size\. Expected (?P<left>\d+), got (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(r"each element in list of batch should be of equal size", ShapeMismatch, op="collation"),
    signature(r"Trying to resize storage that is not resizable", ShapeMismatch, op="collation"),
    signature(
        r"Unable to create tensor, you should probably activate truncation and/or padding",
        ShapeMismatch,
        op="collation",
    ),
    signature(
        r"ArrowInvalid: Column \d+ named \S+ expected length (?P<left>\d+) but got length (?P<right>\d+)",
        ShapeMismatch,
        op="table",
    ),
    # Shapes: TensorFlow
    signature(r"Incompatible shapes: (?P<left>\[[^\]]*\]) vs\.? (?P<right>\[[^\]]*\])", ShapeMismatch),
    signature(
        r"logits and labels must (?:be broadcastable|have the same (?:shape|first dimension|size)): "
        r"?[^\n]{0,20}"
        r"logits(?:_size|_shape)? ?(?:shape )?=?(?P<left>[\[(][^\])]*[\])]) (?:and )?labels(?:_size|_shape)? "
        r"?(?:shape )?"
        r"=?(?P<right>[\[(][^\])]*[\])])",
        ShapeMismatch,
        op="loss",
    ),
    signature(r"logits and labels must (?:be broadcastable|have the same)", ShapeMismatch, op="loss"),
    signature(
        r"Dimensions? (?:\d+ in both shapes )?must be equal, but are (?P<left>\d+) and (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(
        r"Matrix size-incompatible: In\[0\]: (?P<left>\[[^\]]*\]), In\[1\]: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="matmul",
    ),
    signature(
        r"Cannot batch tensors with different shapes in component \d+\. First element had shape "
        r"(?P<left>\[[^\]]*\]) "
        r"and element \d+ had shape (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="batch",
    ),
    signature(
        r"Cannot add tensor to the batch: number of elements does not match\. Shapes are: \[tensor\]: "
        r"(?P<left>\[[^\]]*\]), \[batch\]: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="batch",
    ),
    signature(
        r"Input to reshape is a tensor with (?P<left>\d+) values, but the requested shape (?:has|requires a "
        r"multiple "
        r"of) (?P<right>\d+)",
        ShapeMismatch,
        op="reshape",
    ),
    signature(
        r"ConcatOp : Dimensions? of inputs should match: shape\[0\] = (?P<left>\[[^\]]*\]) vs\. shape\[\d+\] "
        r"= "
        r"(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(
        r"Cannot feed value of shape (?P<left>\([^)]*\)) for Tensor [^\n]{0,80}?which has shape "
        r"'?(?P<right>\([^)]*\))",
        ShapeMismatch,
        op="feed",
    ),
    signature(
        r"Incompatible shapes at component \d+: expected (?P<left>\[[^\]]*\]) but got (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="dataset",
    ),
    signature(
        r"Number of ways to split should evenly divide the split dimension, but got split_dim \d+ \(size = "
        r"(?P<batch>\d+)\) and num_split (?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(r"Dimension size must be evenly divisible by (?P<parts>\d+) but is (?P<batch>\d+)", BatchNotDivisible),
    # Shapes: JAX and NumPy
    signature(
        r"(?:Incompatible shapes for broadcasting|[Gg]ot incompatible shapes for broadcasting): "
        r"(?P<left>[^\n]{1,120})",
        ShapeMismatch,
        op="broadcast",
    ),
    signature(
        r"dot_general requires contracting dimensions to have the same shape, got (?P<left>\([^)]*\)) and "
        r"(?P<right>\([^)]*\))",
        ShapeMismatch,
        op="dot",
    ),
    signature(
        r"TypeError: \w+ got incompatible shapes for broadcasting: (?P<left>\([^)]*\)), (?P<right>\([^)]*\))",
        ShapeMismatch,
    ),
    signature(
        r"TypeError: (?P<op>\w+) (?:requires|operands? must have|expects)[^\n]{0,80}(?:equal|same) "
        r"shapes?[^\n]{0,80}",
        ShapeMismatch,
    ),
    signature(
        r"operands could not be broadcast together with (?:remapped )?shapes (?P<left>\([^)]*\)) "
        r"(?P<right>\([^)]*\))",
        ShapeMismatch,
    ),
    signature(
        r"could not broadcast input array from shape (?P<left>\([^)]*\)) into shape (?P<right>\([^)]*\))",
        ShapeMismatch,
    ),
    signature(
        r"all (?:the )?input array(?:s must have (?:the )?same|(?: dimensions)?(?: except for the concatenation "
        r"axis)? must "
        r"match)[^\n]{0,100}",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(r"vmap got inconsistent sizes for array axes to be mapped", ShapeMismatch, op="vmap"),
    # Batches: JAX shardings
    signature(
        r"(?:size of its )?dimension \d+ should be divisible by (?P<parts>\d+), but it is equal to "
        r"(?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"One of [^\n]{1,200}?should (?:be divisible by|evenly divide)(?:[^\n\d]{0,40}(?P<parts>\d+))?[^\n]{0,60}",
        BatchNotDivisible,
    ),
    signature(r"per-dimension tiling factors: \[[\d, ]{1,60}\] should evenly divide the shape", BatchNotDivisible),
    signature(
        r"implies that array axis \d+ is partitioned (?P<parts>\d+) times, but the dimension size is "
        r"(?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(r"has to be divisible by the size of the named axis", BatchNotDivisible),
    # Shapes: what TensorFlow's operators and torch's losses say besides
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
        r"expects (?P<left>\d+) (?:input\(s\)|inputs), but it received (?P<right>\d+) input tensors",
        ShapeMismatch,
        op="a layer",
    ),
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
    signature(r"split_with_sizes expects split_sizes to sum exactly to (?P<left>\d+)", ShapeMismatch, op="split"),
    signature(r"The requested array has an inhomogeneous shape", ShapeMismatch, op="collation"),
    signature(
        r"Input tensor shapes do not match for distributed tensor inputs", ShapeMismatch, op="the batches of replicas"
    ),
    signature(
        r"Structure of Python function inputs does not match input_signature|Python inputs incompatible with input_signature",
        ShapeMismatch,
        op="the inputs of a tf.function",
    ),
    signature(r"TensorArray has inconsistent shapes\.", ShapeMismatch, op="TensorArray"),
    signature(
        r"Tried to set a tensor with incompatible shape at a list index\. Item element shape: (?P<left>\[[^\]]*\]) list shape: "
        r"(?P<right>\[[^\]]*\])",
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
        r"Shapes of all inputs must match: values\[\d+\]\.shape = (?P<left>\[[^\]]*\]) != values\[\d+\]\.shape = "
        r"(?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="stack",
    ),
    signature(r"Inputs to operation (?P<op>\S{1,120}) of type \w+ must have the same size and shape", ShapeMismatch),
    signature(
        r"The two structures don't have the same (?:nested structure|number of elements)",
        ShapeMismatch,
        op="structures of tensors",
    ),
    signature(r"Tensors must have same number of dimensions: got (?P<left>\d+) and (?P<right>\d+)", ShapeMismatch),
    signature(
        r"ValueError: Using a target size \((?P<left>[^\n]{1,60}?)\) that is different to the input size \((?P<right>[^\n]{1,60}?)\)",
        ShapeMismatch,
        op="loss",
    ),
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
    # Types: torch
    signature(r"expected scalar type (?P<left>\w+) but found (?P<right>\w+)", DtypeMismatch),
    signature(
        r"[Ee]xpected object of (?:scalar )?type (?P<left>[\w.]+) but (?:found|got) (?:scalar )?type "
        r"(?P<right>[\w.]+)",
        _tensor_types,
    ),
    signature(
        r"expected m(?:at1 and m)?at2 to have the same dtype, but got: (?P<left>[\w: ]+?) != "
        r"(?P<right>[\w:]+)",
        DtypeMismatch,
    ),
    signature(
        r"(?:mat1 and mat2|self and mat2|tensors?|inputs?|query, key,? and value|weight and input|all "
        r"operands)"
        r"[^\n]{0,40} (?:must|to) (?:have|be of) (?:the )?same (?:d)?type[^\n]{0,20}?(?:(?:but )?got:? "
        r"(?P<left>[\w.: ]{1,60}?)"
        r"(?: and |, | != )(?P<right>[\w.:]+)|$)",
        DtypeMismatch,
    ),
    signature(
        r"Input type \((?P<left>[^)]+)\) and (?:weight|bias) type \((?P<right>[^)]+)\) should be the same",
        _tensor_types,
    ),
    signature(
        r"\"\w+\" not implemented for '(?P<left>Half|BFloat16|Long|Int|Bool|Byte|Char|Float8_\w+|"
        r"ComplexFloat)'",
        DtypeMismatch,
    ),
    signature(r"Found dtype (?P<left>\w+) but expected (?P<right>\w+)", DtypeMismatch),
    signature(r"result type (?P<left>\w+) can't be cast to the desired output type (?P<right>\w+)", DtypeMismatch),
    signature(
        r"Index put requires the source and destination dtypes match, got (?P<left>\w+) for the destination "
        r"and "
        r"(?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Expected tensor for argument #\d+ '\w+' to have (?:one of the following )?scalar types?:? "
        r"(?P<left>[\w, ]+?)"
        r"[;,] but got (?:\S+ )?(?:\w*Tensor|type )? ?(?P<right>[\w.]+) instead",
        DtypeMismatch,
    ),
    signature(r"expected dtype (?P<left>\w+) for `?\w+`? but got dtype (?P<right>[\w:]+)", DtypeMismatch),
    signature(
        r"Must flatten tensors with uniform dtype but got (?P<left>[\w.]+) and (?P<right>[\w.]+)",
        DtypeMismatch,
    ),
    signature(
        r"Must flatten tensors with the same d(?:ata )?type but got (?P<left>[\w.]+) and (?P<right>[\w.]+)",
        DtypeMismatch,
    ),
    signature(r"Attempting to unscale (?P<left>FP16) gradients", DtypeMismatch, right="the float32 of a master copy"),
    signature(r"(?P<left>FlashAttention) only supports? (?P<right>fp16 and bf16) data type", DtypeMismatch),
    signature(r"can't convert np\.ndarray of type (?P<left>numpy\.\w+)", DtypeMismatch),
    # Types: TensorFlow and JAX
    signature(
        r"Value for attr '\w+' of (?P<left>\w+) is not in the list of allowed values: (?P<right>[^\n;]{1,120})",
        DtypeMismatch,
    ),
    signature(r"Failed to convert a NumPy array to a Tensor \(Unsupported object type (?P<left>[\w.]+)", DtypeMismatch),
    signature(r"Cannot convert value dtype\((?P<left>\w+)\) to a TensorFlow DType", DtypeMismatch),
    signature(r"value cannot be converted to type (?P<left>[\w:]+) without overflow", DtypeMismatch),
    signature(
        r"TensorArray dtype is (?P<left>\w+) but Op (?:is trying to write|requested) dtype (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Expected (?P<left>u?int\d+|b?float\d+|bool|string)(?:_ref)?(?: passed to parameter '\w+' of op '\w+')?, "
        r"(?:but )?got [^\n]{0,200}? of type '(?P<right>\w+)' instead",
        DtypeMismatch,
    ),
    signature(
        r"Incompatible type conversion requested to type '(?P<left>\w+)' for (?:AutoCastVariable which is casted to|"
        r"variable of) type '(?P<right>\w+)'",
        DtypeMismatch,
    ),
    signature(
        r"must have the same dtype, got (?P<left>tf\.\w+|<dtype: '\w+'>|\w+) != (?P<right>tf\.\w+|<dtype: '\w+'>|\w+)",
        DtypeMismatch,
    ),
    signature(r"Op have types \[(?P<left>[\w, <>.:']{1,200})\] that don't all match", DtypeMismatch),
    signature(r"Inconsistent values for attr '\w+' (?P<left>DT_\w+) vs\. (?P<right>DT_\w+)", DtypeMismatch),
    signature(
        r"Trying to (?:assign|read|sparse read) (?:a )?variable with wrong dtype\. Expected (?P<left>\w+) got (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"(?:body_fun output and input|(?:true_fun|false_fun|branch \d+)(?: and (?:true_fun|false_fun|branch \d+))? outputs?|"
        r"cond branches|branches) must have (?:identical|equal|the same)(?: output)? types",
        DtypeMismatch,
    ),
    signature(
        r"as input #\d+(?:\(zero-based\))? was expected to be an? (?P<left>\w+) tensor but is an? "
        r"(?P<right>\w+) tensor",
        DtypeMismatch,
    ),
    signature(r"Tensor conversion requested dtype (?P<left>\w+) for Tensor with dtype (?P<right>\w+)", DtypeMismatch),
    signature(
        r"Input '\w+' of '\w+' Op has type (?P<left>\w+) that does not match type (?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Value passed to parameter '\w+' has DataType (?P<left>\w+) not in list of allowed values: "
        r"(?P<right>[^\n]{1,80})",
        DtypeMismatch,
    ),
    signature(
        r"[Tt]ype mismatch[^\n]{0,80}: (?:expected )?(?P<left>DT_\w+|tf\.\w+|"
        r"torch\.\w+)[^\n]{1,40}?(?P<right>DT_\w+|tf\.\w+|"
        r"torch\.\w+)",
        DtypeMismatch,
    ),
    signature(
        r"TypeError: (?:lax\.)?(?P<op>\w+) requires arguments to have the same dtypes, got "
        r"(?P<types>[^\n]{1,80})",
        lambda match: DtypeMismatch(left=match["types"]),
    ),
    signature(
        r"(?:scan|while_loop|cond)[^\n]{0,80}(?:carry|branch)[^\n]{0,80}(?:must have (?:equal|the same|"
        r"identical) types|"
        r"must be equal types|differ)",
        DtypeMismatch,
    ),
)
