# SPDX-License-Identifier: Apache-2.0
"""Which calls all ranks must make: by their names, or by the object and the place that they stand in."""

from __future__ import annotations

import ast

from keepstep.parse.code.scope import FileState, KnownValue, Scope
from keepstep.parse.code.vocabulary import COLLECTIVE_METHODS, COLLECTIVES, SHARDED

Arguments = list[tuple[str, ast.expr, KnownValue]]
_OF_FSDP = "FullyShardedDataParallel.state_dict_type"
_SHARDS = (f"{SHARDED}.", "torch.distributed.fsdp.FullyShardedDataParallel.")
_BY_STRATEGY = (".strategy.barrier", ".strategy.broadcast")
_OF_ENGINE = frozenset({"save_checkpoint", "load_checkpoint", "save_16bit_model"})
_OF_LIGHTNING = frozenset({"all_gather", "barrier", "log", "log_dict"})
KINDS_BY_PLACE = frozenset(
    {"state_dict", "full_tensor", "compute", "barrier", "broadcast", *_OF_ENGINE, *_OF_LIGHTNING}
)
"""Methods that are collectives in some places."""
_UNLESS = {"torch_xla.core.xla_model.save": "sync", "torch.distributed.new_group": "use_local_synchronization"}
"""Arguments that make a call one that ranks may make alone."""


def kind_of(name: str, node: ast.Call, arguments: Arguments, scope: Scope, state: FileState) -> str:
    """The kind of a call that all ranks must make; empty: it is none."""
    method = name.rpartition(".")[2]
    kind = COLLECTIVES.get(name) or COLLECTIVE_METHODS.get(method, "")
    if name in _UNLESS and any(label == _UNLESS[name] for label, _, _ in arguments):
        return ""
    if kind or method not in KINDS_BY_PLACE:
        return kind
    return _by_place(name, method, node, arguments, scope, state)


def _by_place(name: str, method: str, node: ast.Call, arguments: Arguments, scope: Scope, state: FileState) -> str:
    """Methods that are collectives because of what they stand in, or of what they are called on."""
    if method == "state_dict":
        around = [state.blocks[each] for each in scope.within]
        return "save" if any(_OF_FSDP in made for kind, _, _, made, _ in around if kind == "with") else ""
    if method == "full_tensor" and name.startswith(_SHARDS):
        return "save"
    if method == "compute" and name.startswith("torchmetrics."):
        return "" if _computes_alone(state) else "collective"
    if method in ("barrier", "broadcast"):
        is_strategy = name.endswith(_BY_STRATEGY) or state.text(node.func).endswith(_BY_STRATEGY)
        if is_strategy:
            return "collective"
    if method in _OF_ENGINE and name.startswith("?") and _is_engine(node, state):
        return "save"
    if (
        method == "save_checkpoint"
        and name.startswith("?")
        and state.text(node.func).endswith("trainer.save_checkpoint")
    ):
        return "save" if _imports(state, "lightning", "pytorch_lightning") else ""
    if method in _OF_LIGHTNING and (
        name.rpartition(".")[0] == scope.owner or (name.startswith("?") and not scope.owner)
    ):
        bases = state.classes.get(scope.owner, ())
        is_ours = any(base.startswith("lightning.") for base in bases)
        if method.startswith("log"):
            is_ours = is_ours and any(label == "sync_dist" and known.literal == "True" for label, _, known in arguments)
        return "collective" if is_ours else ""
    return ""


def _computes_alone(state: FileState) -> bool:
    """Whether the file makes metrics that are not synchronised when they are computed."""
    return any(given[0] == "sync_on_compute" for call in state.calls for given in call[3])


def _is_engine(node: ast.Call, state: FileState) -> bool:
    """Whether a method is called on DeepSpeed's engine, by the name of the variable."""
    return "engine" in state.text(node.func).rpartition(".")[0].lower() and _imports(state, "deepspeed")


def _imports(state: FileState, *roots: str) -> bool:
    return any(name.partition(".")[0] in roots for name in state.imports.values())
