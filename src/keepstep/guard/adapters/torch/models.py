# SPDX-License-Identifier: Apache-2.0
"""Models that ranks train together: all must have built the same, before the wrapper's own first collective."""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from keepstep.guard.adapters.torch.numbers.fingerprints import group_of_shards
from keepstep.guard.adapters.torch.torch_state import TorchState
from keepstep.guard.agree.contract import PATIENCE_S
from keepstep.signals.contracts import Subject

MOST_ENTRIES = 360
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_flat_param.")
DDP_SETTINGS = ("bucket_cap_mb", "find_unused_parameters", "broadcast_buffers", "static_graph")
"""Those that decide which collectives DDP issues, and how large they are."""
FSDP_SETTINGS = ("sharding_strategy", "sync_module_states")

_depth = threading.local()


def hook_ddp(state: TorchState, module: ModuleType) -> None:
    """DistributedDataParallel compares shapes with a collective of its own, but says less."""
    _hook_class(state, module.DistributedDataParallel, "DDP models", DDP_SETTINGS)


def hook_fsdp(state: TorchState, module: ModuleType) -> None:
    """FullyShardedDataParallel wraps from the outside in: only the outermost module states."""
    _hook_class(state, module.FullyShardedDataParallel, "FSDP models", FSDP_SETTINGS)


def _hook_class(state: TorchState, kind: Any, part: str, settings: tuple[str, ...]) -> None:
    original = kind.__init__
    signature = inspect.signature(original)

    def about_to_wrap(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        named = given.arguments
        ranks = _ranks(state, named.get("process_group"), named.get("device_mesh"))
        if ranks is not None:
            stated = _signature(named["module"], _ignored(named["module"], named))
            stated |= {name: str(named.get(name)) for name in settings if name in named}
            _agree(state, stated, ranks)

    def wrapped(model: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(model, *args, **kwargs).arguments
        ranks = _ranks(state, given.get("process_group"), given.get("device_mesh"))
        _remember(state, model, ranks)
        if ranks is not None and settings is DDP_SETTINGS:
            state.replicas.wrapped(model, ranks)
        elif ranks is not None:
            _has_no_replicas(state)

    before = state.session.guarded(part, about_to_wrap)
    after = state.session.guarded(part, wrapped)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(_depth, "inside", False):
            original(self, *args, **kwargs)
            return
        _depth.inside = True
        try:
            before(self, *args, **kwargs)
            original(self, *args, **kwargs)
            after(self, *args, **kwargs)
        finally:
            _depth.inside = False

    kind.__init__ = __init__


def hook_fully_shard(state: TorchState, module: ModuleType) -> None:
    """`fully_shard` has no collective before the first forward, where the root module is known."""
    kind: Any = module.FSDPState
    original = kind._lazy_init
    is_compiling = state.is_compiling

    def about_to_begin(fsdp: Any) -> None:
        if fsdp._is_root is not None or len(fsdp._modules) != 1:
            return
        root = fsdp._modules[0]
        ranks = _mesh_ranks(state, next((p.device_mesh for p in root.parameters() if hasattr(p, "device_mesh")), None))
        if ranks is not None:
            _agree(state, _signature(root, ()), ranks)
            _remember(state, root, ranks)
            group = group_of_shards(root)
            if group is None:
                _has_no_replicas(state)
            else:
                state.replicas.wrapped(root, tuple(map(int, state.c10d.get_process_group_ranks(group))))

    before = state.session.guarded("fully_shard models", about_to_begin)

    @functools.wraps(original)
    def _lazy_init(self: Any) -> None:
        if not is_compiling():
            before(self)
        original(self)

    kind._lazy_init = _lazy_init


def hook_meshes(state: TorchState, module: ModuleType) -> None:
    """Device meshes: with several axes it is not known which ranks are meant to be fed different data."""
    kind: Any = module.DeviceMesh
    original = kind.__init__

    def made(mesh: Any) -> None:
        if int(getattr(mesh, "ndim", 1)) > 1:
            state.several_axes = True

    after = state.session.guarded("device meshes", made)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        after(self)

    kind.__init__ = __init__


def _agree(state: TorchState, stated: dict[str, str], ranks: tuple[int, ...]) -> None:
    everyone = len(ranks) == state.world
    subject = Subject.MODEL if everyone else f"{Subject.MODEL} of ranks {', '.join(map(str, ranks[:16]))}"
    patience = max(
        0.5, min(PATIENCE_S, state.timeout_s / 4)
    )  # a rank that does not wait must not time out because of this
    state.session.agree(subject, stated, ranks=() if everyone else ranks, patience=patience)


def _remember(state: TorchState, model: Any, ranks: tuple[int, ...] | None) -> None:
    """All ranks train these parameters together. Only their ids are kept."""
    state.wrapped = True
    if ranks is not None and len(ranks) == state.world:
        state.all_together = True
        if len(state.shared) < 1_000_000:
            state.shared.update(id(each) for each in model.parameters() if each.requires_grad)


def _has_no_replicas(state: TorchState) -> None:
    state.session.uncovered("fingerprints of sharded parameters", "each rank holds a part of its own, not a replica")


def _ranks(state: TorchState, group: Any, mesh: Any) -> tuple[int, ...] | None:
    """The ranks that take part; None: only this one, or it is not known."""
    if state.c10d is None or not state.c10d.is_initialized() or isinstance(group, tuple):
        return None
    if mesh is not None:
        return _mesh_ranks(state, mesh)
    ranks = tuple(int(rank) for rank in state.c10d.get_process_group_ranks(group or state.default_group()))
    return ranks if len(ranks) > 1 else None


def _mesh_ranks(state: TorchState, mesh: Any) -> tuple[int, ...] | None:
    if mesh is None or state.closed:
        return None
    ranks = tuple(int(rank) for rank in mesh.mesh.flatten().tolist())
    return ranks if len(ranks) > 1 and state.rank() in ranks else None


def _ignored(model: Any, named: dict[str, Any]) -> Iterable[str]:
    found = set(getattr(model, "_ddp_params_and_buffers_to_ignore", ()))
    ignored = named.get("ignored_states") or named.get("ignored_parameters") or ()
    if ignored:
        ids = {id(each) for each in ignored}
        found |= {name for name, each in model.named_parameters() if id(each) in ids}
    return found


def _signature(model: Any, ignored: Iterable[str]) -> dict[str, str]:
    """Names, shapes and types as text; for large models, by part."""
    ignored = set(ignored)
    entries = [
        (f"parameter {_clean(name)}", _words(each) + ("" if each.requires_grad else ", frozen"))
        for name, each in model.named_parameters()
        if name not in ignored
    ]
    numbers = sum(each.numel() for name, each in model.named_parameters() if name not in ignored)
    stated = {"parameters": f"{len(entries)} with {numbers} numbers"}
    order = hashlib.sha256("\n".join(name for name, _ in entries).encode()).hexdigest()[:12]
    entries += [(f"buffer {_clean(name)}", _words(each)) for name, each in model.named_buffers() if name not in ignored]
    stated.update(_folded(entries))
    stated["order of parameters"] = order
    return stated


def _folded(entries: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Unchanged while they are few; else grouped by part of the model, each with a total."""
    if len(entries) <= MOST_ENTRIES:
        yield from entries
        return
    deepest = max(name.count(".") for name, _ in entries)
    for depth in range(deepest, -1, -1):
        parts: dict[str, list[str]] = {}
        for name, words in entries:
            pieces = name.split(".")
            parts.setdefault(".".join(pieces[: depth or 1]), []).append(f"{'.'.join(pieces[depth or 1 :])} {words}")
        if len(parts) <= MOST_ENTRIES or depth == 0:
            break
    for name, found in list(parts.items())[:MOST_ENTRIES]:
        text = ", ".join(found)
        yield name, text if len(text) < 400 else f"{text[:300]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"
    yield "all of them", hashlib.sha256(repr(entries).encode()).hexdigest()[:12]


def _clean(name: str) -> str:
    for each in WRAPPERS:
        name = name.replace(each, "")
    return name


def _words(tensor: Any) -> str:
    try:
        return f"{str(tensor.dtype).rpartition('.')[2]}{list(tensor.shape)}"
    except Exception:  # a lazy parameter has no shape yet
        return "not made yet"
