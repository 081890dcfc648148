# SPDX-License-Identifier: Apache-2.0
"""COD017: a tensor is larger than the memory of any device."""

from __future__ import annotations

import ast
import math
import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule, size
from keepstep.rules.code._asking import Call, ProjectFacts, program

_LARGEST = 10**12
"""No accelerator has a terabyte."""
_TENSORFLOW = ("zeros", "ones", "fill", "random.normal", "random.uniform", "random.truncated_normal")
_TORCH = ("zeros", "ones", "empty", "full", "rand", "randn")
_JAX = ("zeros", "ones", "full", "empty")
_MAKERS = frozenset(
    [
        *(f"tensorflow.{name}" for name in _TENSORFLOW),
        *(f"torch.{name}" for name in _TORCH),
        *(f"jax.numpy.{name}" for name in _JAX),
        *(f"jax.random.{name}" for name in ("normal", "uniform")),
    ]
)
_BYTES = {"64": 8, "double": 8, "32": 4, "16": 2, "half": 2, "8": 1, "bool": 1}
_DTYPE = re.compile(r"(64|32|16|8|bool|double|half)\b")
_ONLY_SHAPES = re.compile(r"meta|Fake|empty_weights|eval_shape|skip_init", re.I)
_COMPILED = re.compile(r"jit|eval_shape|make_jaxpr|shard_map|pmap|lower")


def _number(node: ast.expr) -> int | None:
    """An integer that is written as one, or as a product or a power of some."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and node.value > 0 else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _number(node.left), _number(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Mult):
        return left * right
    return left**right if isinstance(node.op, ast.Pow) and right < 64 and left < 2**32 else None


def _elements(text: str) -> int | None:
    """How many elements a shape has that is written in full."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    numbers = [_number(each) for each in (node.elts if isinstance(node, ast.Tuple | ast.List) else [node])]
    sizes = [each for each in numbers if each is not None]
    return math.prod(sizes) if len(sizes) == len(numbers) else None


def _shape(call: Call) -> str:
    fact = call.fact
    for name in ("shape", "size", "dims"):
        value = fact.argument(name)
        if value is not None:
            return value.text
    given = [each.value.text for each in fact.arguments if not each.name]
    if fact.name.startswith("jax.random."):
        return given[1] if len(given) > 1 else ""
    if fact.name.startswith("torch.") and fact.name != "torch.full" and len(given) > 1:
        return f"({', '.join(given)})"
    return given[0] if given else ""


def _width(call: Call) -> int:
    dtype = call.fact.argument("dtype")
    found = _DTYPE.search(dtype.text) if dtype is not None else None
    return _BYTES[found[1]] if found else 1 if dtype is not None else 4


def _is_made_here(known: ProjectFacts, call: Call) -> bool:
    """Whether the tensor is really made, whole, on one device."""
    fact = call.fact
    if any(each.name in ("device", "out_sharding", "layout") for each in fact.arguments):
        return fact.name.startswith("torch.") and "meta" not in fact.text and "out_sharding" not in fact.text
    if any(_ONLY_SHAPES.search(block.text) for block in fact.within if block.kind == "with"):
        return False
    function = known.functions.get(fact.function)
    if function is None or not fact.name.startswith("jax."):
        return True
    return not any(_COMPILED.search(name) for name in (*function.fact.decorated, *function.fact.given_to))


@rule(id="COD017", cause=Cause.RESOURCE_GPU_OOM, needs=(CodeCall,), confidence=Confidence.ESTABLISHED)
def larger_than_any_device(seen: EvidenceSet) -> Findings:
    """A tensor is made with a shape, written in the program, that needs more than a terabyte.

    ## What it looks like
    ```python
    import tensorflow as tf

    weights = tf.random.normal((20000, 20000, 1000))
    ```

    ## Why it happens
    Often it is one zero too many, or a dimension that should have been a batch. A strategy does not help: it puts
    a copy of each variable on every device.

    ## How we know
    The shape is written as numbers, and the call makes the tensor at once, whole, on one device.

    ## What to do
    ```python
    import tensorflow as tf

    weights = tf.random.normal((20000, 20000))
    ```

    ## When this is wrong
    When the line is meant to fail, or is never reached.
    """
    known = program(seen)
    for each in known.calls(*sorted(_MAKERS)):
        elements = _elements(_shape(each)) if each.fact.arguments else None
        bytes_needed = elements * _width(each) if elements is not None else 0
        if bytes_needed > _LARGEST and _is_made_here(known, each):
            yield Found(
                title=f"a tensor of {size(bytes_needed)} is made on one device",
                because=f"its shape {_shape(each)} has {elements:,} elements of {_width(each)} bytes; no device has so"
                " much memory",
                evidence=(each,),
                fixes=(Fix(do="look for a zero too many in the shape, or make the tensor in parts"),),
            )
