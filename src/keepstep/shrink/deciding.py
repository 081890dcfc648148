# SPDX-License-Identifier: Apache-2.0
"""What decides whether a rank gets to a line at all: `if rank != 1: return` before it, which stands around nothing."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from keepstep.shrink.program import Node, Place, Program, bodies, uid

LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def deciding(program: Program, executed: Collection[Place], among: Collection[Node]) -> set[Node]:
    """Of these statements each `if` that was left at some time, and at another one was not."""
    found: set[Node] = set()
    for each in program.statements():
        if isinstance(each, ast.If) and uid(each) in among and isinstance(each.body[-1], LEAVES):
            after = next(_after(program, each), None)
            if after is not None and _ran(each.body[-1], executed) and _ran(after, executed):
                found |= {
                    uid(node) for node in (each, each.body[-1], *program.above(each)) if isinstance(node, ast.stmt)
                }
    return found


def _ran(node: ast.stmt, executed: Collection[Place]) -> bool:
    return (uid(node)[0], node.lineno) in executed


def _after(program: Program, node: ast.If) -> Iterator[ast.stmt]:
    """What comes next where it is not left."""
    yield from node.orelse[:1]
    for body in bodies(next(program.above(node))):
        if node in body:
            yield from body[body.index(node) + 1 :][:1]
