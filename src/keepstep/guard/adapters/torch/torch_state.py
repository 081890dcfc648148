# SPDX-License-Identifier: Apache-2.0
"""What the parts of the PyTorch adapter share."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.compare_collectives import RankWord
    from keepstep.guard.adapters.torch.issued_collective import IssuedCollective
    from keepstep.guard.adapters.torch.store import Store
    from keepstep.guard.protocols import Adapts
    from keepstep.signals.collective_history import Mismatch

CONTEXT_PARALLEL = "torch.distributed.tensor.experimental._attention"
"""Loaded by programs whose ranks divide each sequence among them, after they have loaded the same batch."""


class HandsOut(Protocol):
    """What :class:`loaders.Loaders` knows about the batches."""

    turns: int
    length: int | None
    epochs: int

    def begun(self, loader: Any) -> None: ...
    def got(self, dataset: Any, batch: Any) -> None: ...
    def ended(self, dataset: Any) -> None: ...
    def stepped(self) -> None: ...
    def signature(self) -> dict[str, str]: ...


class Watches(Protocol):
    """What :class:`watch.TorchWatch` does for the groups."""

    def restart(self) -> None: ...
    def before_end(self) -> None: ...
    def sequences(self) -> dict[str, int]: ...
    def word(self, sequences: dict[str, int], still: float) -> RankWord: ...
    def publish(self, sequences: dict[str, int], still: float) -> RankWord: ...
    def compare(self, sequences: dict[str, int], still: float, *, last: bool) -> bool: ...
    def tell(self, found: Mismatch, words: dict[int, RankWord]) -> None: ...


class Replicated(Protocol):
    """What :class:`fingerprints.Replicas` does for models that DDP keeps equal."""

    shared: set[int]

    def wrapped(self, model: Any, ranks: tuple[int, ...]) -> None: ...
    def stepped(self, optimizer: Any) -> None: ...


class AgainstOwnPast(Protocol):
    """What :class:`numbers.own_past.OwnPast` does for the leading optimizer."""

    number: int
    next: float
    loss: Any
    losses: int
    looking: Any
    refused: str

    @property
    def is_due(self) -> bool: ...
    def stop(self, why: str) -> None: ...
    def before(self, optimizer: Any) -> None: ...
    def after(self, optimizer: Any) -> None: ...


class TorchState:
    """One per process. Holds no tensor, module or group, only numbers and text about them."""

    def __init__(self, session: Adapts, module: ModuleType) -> None:
        self.session = session
        self.torch: Any = module
        self.folder = os.path.dirname(str(module.__file__)) + os.sep
        """Where torch's own files are."""
        self.c10d: Any = None
        """torch.distributed.distributed_c10d, once hooked."""
        self.is_compiling: Any = _is_compiling(module)
        self.is_traced: Any = getattr(getattr(module, "compiler", None), "is_dynamo_compiling", self.is_compiling)
        """The same for what only dynamo traces: cheaper to ask."""
        self.thread = threading.main_thread().ident or 0
        """The thread that trains..."""
        self.native_thread = threading.get_native_id()
        """... and its number in the kernel."""
        self.store: Store | None = None
        self.world = 1
        self.own_rank = 0
        self.timeout_s = 600.0
        """How long collectives wait, if the script says so."""
        self.shared: set[int] = set()
        """The ids of parameters that all ranks train together."""
        self.all_together = False
        """A model is wrapped over the whole world."""
        self.several_axes = False
        """There is a device mesh with several axes: ranks along some of them share their data by design."""
        self.wrapped = False
        """A model is wrapped over some ranks: they exchange gradients."""
        self.parameters = 0
        """How many numbers the leading optimizer trains."""
        self.steps = 0
        """Of optimizers with such parameters: the same on every rank of a healthy run."""
        self.ends: deque[tuple[int, int]] = deque(maxlen=64)
        """Step, and the sequence number of the default group at its end."""
        self.lock = threading.Lock()
        """Held while groups are looked at, and while they are destroyed."""
        self.closed = True
        self.find_world: Callable[[], None] = lambda: None
        """Ask torch for a world whose forming was not seen. Set by `world.hook`."""
        self.formations = 0
        self.loaders: HandsOut
        """Set by `attach`."""
        self.issued: dict[str, deque[IssuedCollective]] = {}
        """The last collectives of the script, by the name of their group."""
        self.watch: Watches | None = None
        self.replicas: Replicated
        self.own_past: AgainstOwnPast
        """Set by `attach`."""
        self.backwards = 0
        """How many losses have had a backward pass."""
        self.failure_told = False
        self.never_compiled: list[CodeType] = []
        """Wrappers that torch.compile must skip: it breaks its graph before a backward pass and would compile them."""

    def values(self, thing: Any) -> tuple[float, float, bool] | None:
        """Least, largest and whether all are finite, for a plain host tensor; read by numpy, outside torch's modes."""
        if (
            type(thing) is not self.torch.Tensor
            or thing.device.type != "cpu"
            or thing.requires_grad
            or not thing.numel()
        ):
            return None
        if (
            thing.layout is not self.torch.strided
            or thing.dtype in (self.torch.bfloat16, self.torch.bool)
            or thing.is_complex()
        ):
            return None
        found = thing.numpy()
        least, largest = float(found.min()), float(found.max())
        return least, largest, _finite(least) and _finite(largest)

    def rank(self) -> int:
        """In the world as it was formed: the script may be destroying it while the guard's thread asks."""
        return self.own_rank

    def trained_together(self) -> int:
        """How many ranks train together."""
        if self.closed:
            self.find_world()
        return rpc_workers() or 1 if self.closed else self.world

    def is_data_parallel(self) -> bool:
        """Whether all ranks average their gradients and nothing suggests that some of them must share their data."""
        if not self.all_together or self.several_axes or self.closed or CONTEXT_PARALLEL in sys.modules:
            return False
        with self.lock:
            groups = list(self.c10d._world.pg_names)
            return all(int(group.size()) in (1, self.world) for group in groups)

    def default_group(self) -> Any:
        """The default group, or None. Never keep it."""
        return self.c10d._world.default_pg if self.c10d is not None else None

    def sequence(self, group: Any) -> int:
        """How many operations the group has been given; 0 if it does not count them."""
        try:
            return int(group._get_sequence_number_for_group())
        except Exception:  # a backend of another kind
            return 0


def rpc_workers() -> int:
    """How many workers talk to each other by torch's RPC, which forms no process group; 0 if it is not used."""
    rpc = sys.modules.get("torch.distributed.rpc")
    is_set = getattr(rpc, "_is_current_rpc_agent_set", None)
    if is_set is None or not is_set():
        return 0
    return len(rpc.api._get_current_rpc_agent().get_worker_infos())  # type: ignore[union-attr]


def replace_everywhere(module: ModuleType, name: str, wrapper: Any) -> None:
    """Replace a function in every module that holds it: torch's own import some by name (the device mesh), too."""
    original = getattr(module, name)
    for each in list(sys.modules.values()):
        if isinstance(each, ModuleType) and vars(each).get(name) is original:
            setattr(each, name, wrapper)


def replace(modules: list[Any], name: str, wrapper: Any) -> None:
    """Replace a function with a wrapper, wherever these modules hold it."""
    original = getattr(modules[0], name)
    for module in modules:
        if getattr(module, name, None) is original:
            setattr(module, name, wrapper)


def _is_compiling(module: Any) -> Any:
    try:
        return module.compiler.is_compiling
    except AttributeError:  # before torch 2.1
        return lambda: False


def _finite(value: float) -> bool:
    return value - value == 0.0
