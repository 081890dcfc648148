# SPDX-License-Identifier: Apache-2.0
"""Losses: which variables a backward pass is made of, and whether an expression still holds their graph."""

from __future__ import annotations

import ast
import re

from keepstep.rules.code._asking import Call, ProjectFacts

_NAME = re.compile(r"(?<![\w.\"'])(?:self\.)?[A-Za-z_]\w*(?![\w(.\"'=])")
BACKWARD = ("backward", "manual_backward")


def losses_of(backward: Call) -> set[str]:
    """The variables that gradients are taken of: ``loss`` of ``scaler.scale(loss).backward()``, or as an argument."""
    given = backward.fact.argument("loss", 0)
    on = backward.fact.on.text if backward.fact.on is not None else ""
    if given is not None and not (given.text.startswith("torch.") or given.ranked):
        return set(_NAME.findall(given.text)) or {given.text}
    return set(_NAME.findall(on)) or {on}


def backwards(known: ProjectFacts, function: str) -> list[Call]:
    """The backward passes of a function."""
    return known.named_inside(function, lambda name: name.rpartition(".")[2] in BACKWARD)


def holds_graph(text: str, losses: set[str]) -> str:
    """The loss that the value of an expression refers to with its graph; empty: none, or unknown."""
    try:
        return _held(ast.parse(text, mode="eval").body, losses)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""


def _held(node: ast.expr, losses: set[str]) -> str:
    if isinstance(node, ast.Name | ast.Attribute):
        text = ast.unparse(node)
        return text if text in losses else ""
    inner: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        inner = [node.left, node.right]
    elif isinstance(node, ast.Tuple | ast.List):
        inner = node.elts
    elif isinstance(node, ast.Dict):
        inner = node.values
    elif isinstance(node, ast.UnaryOp):
        inner = [node.operand]
    return next((found for each in inner if (found := _held(each, losses))), "")


def added_to(target: str, text: str) -> str:
    """What ``total = total + x`` adds; empty: it is no such sum."""
    if "+" not in text or target not in text:
        return ""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [ast.unparse(node.left), ast.unparse(node.right)]
        if target in sides:
            return sides[1 - sides.index(target)]
    return ""
