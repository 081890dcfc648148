# SPDX-License-Identifier: Apache-2.0
"""Small questions about values: their paths, names and numbers, and what a function gets to know of an argument."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from keepstep.parse.code import conditions
from keepstep.parse.code.collective_calls import KINDS_BY_PLACE
from keepstep.parse.code.ranks import MAIN_NAMES, RANK_CALLS, WORLD_NAMES, is_rank_name
from keepstep.parse.code.scope import KnownValue, looked_up, may_be_ours
from keepstep.parse.code.unit import SOME, Placed, Test
from keepstep.parse.code.vocabulary import (
    CHECKPOINTERS,
    COLLECTIVE_METHODS,
    COLLECTIVES,
    COMPILERS,
    COUNTED,
    EXITS,
    MAPS,
    SAME_OBJECT,
    SAME_VALUE,
    WRAPPERS,
)

LONGEST_PATH, LONGEST_WORD = 300, 40
_END_OF_PIPELINE = re.compile(r"(?:^|_)(first|last)(?:_(?:pipeline_|pp_)?(?:stage|rank))?$")
NOTHING = KnownValue()
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
VARIABLE_CALLS = frozenset({"os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop"})
_RETURN_MORE = frozenset(
    {*RANK_CALLS, *VARIABLE_CALLS, *SAME_VALUE, *COUNTED, *COMPILERS, "torch.device", "functools.partial", "next"}
    | {FULLY_SHARD}
)
_METHODS_RETURN_MORE = frozenset({*SAME_OBJECT, "get"})
_DIVIDES = frozenset("split chunk tensor_split array_split".split())
_NAMED = (ast.Name, ast.Attribute)
_TOLD = WRAPPERS | CHECKPOINTERS
_FOLLOWED = frozenset(
    {*_TOLD, *RANK_CALLS, "set", "jax.sharding.NamedSharding"}
    | {"torch.utils.data.DistributedSampler", "torch.utils.data.DataLoader"}
)


OPTIONS = frozenset("args opt opts options FLAGS config cfg conf flags hparams hps params settings".split())
"""Variables that hold the options of a program."""


@lru_cache(maxsize=1 << 14)
def kept_at(made: str, source: str) -> KnownValue:
    """What is kept at a source, of which nothing else is known here."""
    return KnownValue(made=made, source=source, functions=(source,))


def path(made: str, more: str) -> str:
    """A longer path, or none where it would grow without end, as for ``x = x.next`` in a loop."""
    return f"{made}{more}" if made and len(made) < LONGEST_PATH else ""


Callee = tuple[str, Placed | None, KnownValue]
"""What is called: its name, its object, and the function, or, for a method that returns its own object, that object."""


@lru_cache(maxsize=1 << 14)
def of_that_name(made: str, name: str) -> KnownValue:
    """What a thing is, of which only the name is known."""
    if is_rank_name(name):
        return KnownValue(made=made, ranked=True, rank=True)
    if name in MAIN_NAMES:
        return KnownValue(made=made, ranked=True, test=conditions.FIRST_ONLY)
    return KnownValue(made=made)


@lru_cache(maxsize=1 << 14)
def that_is(literal: str | None) -> KnownValue:
    return KnownValue(literal=literal)


@lru_cache(maxsize=1 << 14)
def made_by(name: str) -> KnownValue:
    """What a call returns of which nothing else is known."""
    function = name if may_be_ours(name) else looked_up(name)
    return KnownValue(made=name, functions=(function,) if function else ())


@lru_cache(maxsize=1 << 14)
def is_kept(name: str) -> bool:
    """Whether a call may matter for the order of collectives."""
    method = name.rpartition(".")[2]
    return (
        name in COLLECTIVES
        or method in COLLECTIVE_METHODS
        or method in KINDS_BY_PLACE
        or (method == "__call__" and name.removesuffix(".__call__") in COMPILERS)
        or name in EXITS
        or name in MAPS
        or may_be_ours(name)
        or bool(looked_up(name))
    )


@lru_cache(maxsize=1 << 14)
def returns_more(name: str) -> bool:
    """Whether something is known about the result of a call besides its name."""
    return name in _RETURN_MORE or name.rpartition(".")[2] in _METHODS_RETURN_MORE or name.startswith("os.path.")


def parts_of(*inner: KnownValue) -> tuple[str, ...]:
    """Where the things in an expression come from."""
    made = [each.made for each in inner if each.made]
    for each in inner:
        if each.parts:
            made += each.parts
    return tuple(dict.fromkeys(made))[:12] if len(made) > 1 else tuple(made)


def last_name(node: ast.expr) -> str:
    """The last name in it: ``rank`` of ``args.rank``, ``get_rank`` of ``dist.get_rank()``."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_share_of_all(node: ast.expr) -> bool:
    """``x.split(n // world_size)``, ``x.chunk(world_size)``: one part for each rank, equally long as a rule."""
    if not isinstance(node, ast.Call) or last_name(node) not in _DIVIDES:
        return False
    given = [inner for each in (*node.args, *(keyword.value for keyword in node.keywords)) for inner in ast.walk(each)]
    return any(isinstance(each, _NAMED) and last_name(each) in WORLD_NAMES for each in given)


def is_plain(literal: str | None) -> bool:
    """Whether a constant argument may decide something: a truth value, None, a number, or a word."""
    return literal is not None and (
        literal in ("True", "False", "None") or number_of(literal) is not None or word_of(literal) is not None
    )


def bound_literal(literal: str) -> Test:
    number = number_of(literal)
    if number is not None:
        return ("number", number)
    word = word_of(literal)
    if word is not None:
        return ("number", word)
    return conditions.ALWAYS if literal == "True" else conditions.NEVER


def bound(known: KnownValue) -> Test:
    """What a function knows of an argument that decides something in it."""
    if known.literal is not None:
        return bound_literal(known.literal)
    if known.parameter is not None:
        return ("given", known.parameter)
    if known.ranked:
        return known.test if known.test is not None else ("rank", known.made) if known.rank else SOME
    if known.test is not None:
        return known.test
    if is_told(known.made) or not (known.source or known.functions):
        return ("made", known.made)
    return ("of", known.source or known.functions[0])


def says_something(known: KnownValue) -> bool:
    """Whether a function may decide by what it is given here."""
    if known.ranked or known.parameter is not None or is_plain(known.literal) or is_told(known.made):
        return True
    if known.test is not None:
        return bool(conditions.functions_in(known.test))
    return bool(known.source) or (len(known.functions) == 1 and known.functions[0] == known.made)


@lru_cache(maxsize=1 << 14)
def is_told(made: str) -> bool:
    """Whether a function should know what it is given: a wrapped model, or an object of the project."""
    return is_followed(made) or (may_be_ours(made) and is_object(made))


@lru_cache(maxsize=1 << 14)
def is_followed(made: str) -> bool:
    """Whether rules ask for it wherever it goes: a wrapped model, a rank, a device, a set, a sharding, a loader."""
    return made in _FOLLOWED or made.startswith(("os.environ[", "torch.device["))


def is_object(made: str) -> bool:
    """Whether it is an object of a class, by the name of that."""
    return "." in made and made.rpartition(".")[2][:1].isupper()


@lru_cache(maxsize=1 << 12)
def number_of(literal: str | None) -> int | None:
    """The number that a constant is, also in quotes, as in a variable of the environment."""
    literal = literal[1:-1] if literal is not None and literal[:1] in ("'", '"') else literal
    try:
        return int(literal) if literal is not None and literal not in ("True", "False") else None
    except ValueError:
        return None


def word_of(literal: str | None) -> str | None:
    """The short text that a constant is: ``train`` of ``split="train"``."""
    quoted = literal is not None and literal[:1] in ("'", '"') and len(literal) <= LONGEST_WORD
    return literal[1:-1] if quoted and literal is not None else None


def rank_among_these(node: ast.expr, inside: bool, parameter: int | None) -> Test:
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return SOME
    try:
        numbers = [ast.literal_eval(each) for each in node.elts]
    except (ValueError, TypeError, SyntaxError):
        return SOME
    if not all(isinstance(each, int) for each in numbers):
        return SOME
    if parameter is not None:
        return ("param", parameter, "In" if inside else "NotIn", tuple(numbers))
    return conditions.rank_among(numbers, inside)


def is_for_the_caller_to_say(node: ast.BoolOp) -> bool:
    """``host is None or process_index() == host``: it differs by rank only if the caller names one."""
    compared = [each for each in node.values if isinstance(each, ast.Compare) and len(each.comparators) == 1]
    sides = [(each.left, each.comparators[0]) for each in compared]
    optional = {
        left.id for left, right in sides if isinstance(left, ast.Name) and not is_rank_name(left.id) and _is_none(right)
    }
    plain = [(left, right) for left, right in sides if not isinstance(right, ast.Constant)]
    return any(isinstance(each, ast.Name) and each.id in optional for pair in plain for each in pair)


def is_of_one_stage(node: ast.BoolOp) -> bool:
    """``is_first_stage() and is_last_stage()``: that holds on all ranks, where the pipeline has one stage, or on none."""
    names = [last_name(each).lower() for each in node.values]
    if not isinstance(node.op, ast.And) or len(names) != 2:
        return False
    ends = sorted(found[1] for name in names if (found := _END_OF_PIPELINE.search(name)))
    return ends == ["first", "last"]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
