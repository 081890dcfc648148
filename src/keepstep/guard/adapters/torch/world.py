# SPDX-License-Identifier: Apache-2.0
"""The world that torch.distributed forms, and what all its ranks must have in common."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import re
import sys
import urllib.parse
from types import ModuleType
from typing import Any

from keepstep.guard.adapters.torch.collectives import progress_watch
from keepstep.guard.adapters.torch.store import LONGEST_WAIT_S, Store, base_of
from keepstep.guard.adapters.torch.torch_state import TorchState, replace_everywhere
from keepstep.guard.agree.arrivals import rendezvous
from keepstep.guard.transport import collectives
from keepstep.signals.contracts import Subject

OPTIONS = ("NCCL_", "TORCH_NCCL_", "GLOO_", "UCC_", "RCCL_")
OF_THE_HOST = re.compile(r"IFNAME|HCA|FILE|PATH|DEBUG|TOPO|DIR|NET_PLUGIN|HOSTID|CONF")
"""Options that healthy hosts set differently."""


def own_store(torch: Any, c10d: Any, formations: int) -> Any:
    """A store over a separate connection; None where that is not possible."""
    store = c10d._get_default_store()
    if hasattr(store, "clone"):
        return store.clone()
    base = base_of(store)
    if type(base).__name__ != "TCPStore":
        return None
    limit = datetime.timedelta(seconds=LONGEST_WAIT_S)
    dist = torch.distributed
    client = dist.TCPStore(base.host, base.port, None, False, timeout=limit, wait_for_workers=False)
    return dist.PrefixStore(f"keepstep-{formations}", client)


def hook(state: TorchState, c10d: ModuleType) -> None:
    """See every world that is formed, and its end."""
    state.c10d = c10d
    init, destroy = c10d.init_process_group, c10d.destroy_process_group
    after = state.session.guarded("torch world", functools.partial(formed, state))
    look_after = state.session.guarded("collectives watch", functools.partial(progress_watch.begin, state))
    before = state.session.guarded("torch world", functools.partial(_before_destroy, state))
    place = state.session.guarded("start-up words", _meeting_place)

    @functools.wraps(init)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _with_gloo(args, kwargs)
        with rendezvous(state.session, "torch", *(place(*args, **kwargs) or (None, None, None))):
            result = init(*args, **kwargs)
        timeout = kwargs.get("timeout", args[2] if len(args) > 2 else None)
        if isinstance(timeout, datetime.timedelta):
            state.timeout_s = timeout.total_seconds()
        after()
        look_after()
        return result

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        before(args[0] if args else kwargs.get("group"))
        return destroy(*args, **kwargs)

    replace_everywhere(c10d, "init_process_group", init_process_group)
    replace_everywhere(c10d, "destroy_process_group", destroy_process_group)
    state.find_world = functools.partial(find, state)


def _meeting_place(
    backend: Any = None,
    init_method: Any = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    *more: Any,
    **others: Any,
) -> tuple[int | None, int | None, str | None]:
    """Called with the arguments of ``init_process_group``: the world's size, the own rank, and where the ranks meet."""
    env, url = os.environ, urllib.parse.urlparse(str(init_method or "env://"))
    asked = dict(urllib.parse.parse_qsl(url.query))
    size = world_size if world_size > 0 else int(asked.get("world_size") or env.get("WORLD_SIZE") or 0)
    index = rank if rank >= 0 else int(asked.get("rank") or env.get("RANK") or -1)
    if store is not None:
        base = base_of(store)
        at = (
            f"{base.host}:{base.port}"
            if hasattr(base, "host") and hasattr(base, "port")
            else str(getattr(base, "path", "") or "")
        )
    elif url.scheme == "env":
        at = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}" if "MASTER_ADDR" in env and "MASTER_PORT" in env else ""
    else:
        at = url.netloc or url.path
    return size or None, index if index >= 0 else None, at or None


def find(state: TorchState) -> None:
    """A world may have been formed before the hooks were there, or by a function that is not hooked."""
    if state.closed and state.c10d is not None and state.c10d.is_initialized():
        with state.session.part("torch world"):
            formed(state)
            progress_watch.begin(state)


def formed(state: TorchState) -> None:
    """A world was formed: who we are in it, and what all must have in common."""
    session, c10d = state.session, state.c10d
    rank, size, backend = int(c10d.get_rank()), int(c10d.get_world_size()), str(c10d.get_backend())
    before = (session.who.rank, session.who.world) if state.store is not None else None
    session.world_formed(size, rank, "torch")
    state.world, state.own_rank, state.closed = size, rank, False
    if size < 2 or backend == "fake":
        return
    if before is not None and before != (rank, size):
        session.uncovered("contracts", f"the world was formed again, with {size} ranks")
        return
    if not _connect(state):
        return
    session.compare(Subject.VERSIONS, _versions(state))
    session.compare(Subject.OPTIONS, _options(backend))


def _connect(state: TorchState) -> bool:
    if state.store is None:
        state.store = Store()
        state.session.at_close.append(state.store.leave)
    state.formations += 1
    own = own_store(state.torch, state.c10d, state.formations)
    if own is None:
        state.session.uncovered("contracts", "this torch cannot open a second connection to its store")
        return False
    state.store.connect(own)
    state.session.use_exchange(state.store)
    return True


def _before_destroy(state: TorchState, group: Any) -> None:
    default = state.default_group()
    if group is not None and group is not default:
        return
    del default
    if state.watch is not None and not state.closed:
        with state.session.part("exchange of gradients"):  # whatever fails there, the store below must be closed
            state.watch.before_end()
    state.session.leave()
    with state.lock:
        state.closed = True
    if state.store is not None:
        state.store.close()


def _versions(state: TorchState) -> dict[str, str]:
    torch = state.torch
    found = {"torch": str(torch.__version__), "python": platform.python_version()}
    found["CUDA"] = str(getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = str(numpy.__version__)
    return found


def _options(backend: str) -> dict[str, str]:
    found = {"backend": backend}
    for name in sorted(os.environ):
        if name.startswith(OPTIONS) and not OF_THE_HOST.search(name):
            found[name] = os.environ[name][:100]
    return found


# --- gloo in place of NCCL, where the supervisor asks for it (`--remedy all`).

OF_NCCL = ("pg_options", "device_id")


def _with_gloo(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of ``init_process_group``, with gloo where they name NCCL or nothing."""
    if collectives() != "gloo":
        return args, kwargs
    given = kwargs.get("backend", args[0] if args else None)
    if given is not None and "nccl" not in str(given).lower():
        return args, kwargs
    kept = {key: value for key, value in kwargs.items() if key not in (*OF_NCCL, "backend")}
    return ("gloo", *args[1:]), kept
