# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device, as fakes of the CPU that say they are on the device; every storage of theirs is logged.

Fake `cuda` tensors end a CPU build of torch (autograd asks for a device that is not there), so the fakes are of the
CPU, and a mark on the storage says where it would be. Small tensors of the host are real: what the script's own data
decides, such as a length, is what it would be.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from keepstep.check.memory.dry_run import scratch, sparse
from keepstep.check.memory.dry_run.sizes_of_values import SIZES_KNOWN, Choices, largest
from keepstep.check.memory.dry_run.storage_log import StorageLog

REAL_BYTES = 1 << 20
"""Tensors of the host up to this size are real."""
TINY_BYTES = 4 << 10
"""From tensors of this size together, as records of a dataset are, small ones are made: a product at most 2 MiB."""
CPU = torch.device("cpu")
DEVICE = torch.device("cuda:0")
aten = torch.ops.aten
PRODUCTS = {
    getattr(aten, name).default for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution")
}
"""Kernels want one dtype here; fakes would take any."""

_now = threading.local()


def _depth() -> int:
    return getattr(_now, "depth", 0)


def is_of_device(device: object) -> bool:
    """Whether the script means its GPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return isinstance(device, str | torch.device) and torch.device(device).type == "cuda"


class DeviceTensors(TorchDispatchMode):
    """Runs every operation on fakes, or for real if it is small and of the host, and logs what the device holds."""

    def __init__(self, log: StorageLog) -> None:
        super().__init__()
        self.log = log
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self._making = ""
        self._numbers: dict[int, int] = {}
        self._watches: dict[int, weakref.ref[Any]] = {}
        self._of_host: dict[int, weakref.ref[Any]] = {}
        self._target: str | None = None
        self._choices = Choices(self.number)
        self._planning = False
        self.written: Callable[[Any], None] = lambda _: None
        """Is told of every tensor of the device that an operation writes into."""

    # where a tensor is

    def holds(self, tensor: Any) -> bool:
        """Whether this tensor would be on the device."""
        return self.number(tensor) is not None

    def number(self, tensor: Any) -> int | None:
        """The number of its storage in the log; of what is sparse, that of its values."""
        if (found := sparse.parts(tensor)) is not None:
            tensor = found[1]
        return self._numbers.get(tensor.untyped_storage()._cdata) if isinstance(tensor, FakeTensor) else None

    def moved(self, tensor: Any, target: str, dtype: Any = None, copy: bool = False, **how: Any) -> Any:
        """This tensor on the device or on the host: itself, if it is there."""
        order = how.get("memory_format") or torch.preserve_format
        if self.holds(tensor) == (target == "device") and not copy and dtype in (None, tensor.dtype):
            return tensor if order is torch.preserve_format else tensor.contiguous(memory_format=order)
        before, self._target = self._target, target
        try:
            return aten._to_copy.default(tensor, dtype=dtype, memory_format=order)
        finally:
            self._target = before

    # what an operation does

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.prim.device.default:
            return CPU if isinstance(args[0], FakeTensor) and not self.fakes.in_kernel_invocation else func(*args)
        if self._planning:
            return func(*args, **{**kwargs, **({"device": CPU} if is_of_device(kwargs.get("device")) else {})})
        if any(map(is_traceable_wrapper_subclass, tree_leaves((args, kwargs)))):
            return NotImplemented  # a DTensor: what it does to its local tensor comes by here
        target, self._target = self._target, None
        if is_of_device(kwargs.get("device")):
            kwargs["device"], target = CPU, "device"
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if any(sparse.parts(each) is not None for each in tensors):
            with self:
                return sparse.answer(func, args, kwargs)
        if func is sparse.BAGS and args[9]:
            with self:
                return sparse.of_bags(args)
        if func in PRODUCTS and len(kinds := {str(each.dtype) for each in tensors}) > 1:
            raise RuntimeError(f"{func}: tensors of one dtype are expected, not {' and '.join(sorted(kinds))}")
        if tensors:
            follows = any(map(self.holds, tensors))
        else:
            follows = torch._C._current_graph_task_id() != -1 or self._of_call()
        on_device = target == "device" or (target is None and follows)
        held = [self.log.born(each, "library") for each in scratch.copies(func, args)] if on_device else []
        _now.depth = _depth() + 1
        try:
            if not on_device and not any(isinstance(each, FakeTensor) for each in tensors):
                out = self._on_host(func, args, kwargs, tensors)
            else:
                out = self._fake(func, args, kwargs)
        finally:
            _now.depth -= 1
        if func is sparse.MADE and isinstance(out, FakeTensor):
            return sparse.with_parts(out, args[3], args[4])
        if on_device:
            if func._schema.is_mutable:
                for each in tree_leaves(args[:1]):
                    self.written(each)
            kind = "input" if target == "device" and tensors and not any(map(self.holds, tensors)) else self._kind()
            made = [each for each in tree_leaves(out) if isinstance(each, FakeTensor)]
            given = {each.untyped_storage()._cdata for each in tensors if isinstance(each, FakeTensor)}
            needed = scratch.needs(func, args, made)
            for each in reversed(made) if func is aten.native_dropout.default else made:
                if each.untyped_storage()._cdata not in given:  # what is written into stays where it is
                    self._note(each, kind)
                if needed and (bytes_ := needed.pop(0)):
                    self.log.died(self.log.born(bytes_, "workspace"))
            for number in held:
                self.log.died(number)
            self._choices.follow(func, args, out)
        else:
            for each in tree_leaves(out):
                if isinstance(each, FakeTensor) and not tensors and self._making == "bucket":
                    self._note(each, "bucket")  # of a reducer, which is not written in Python
                elif isinstance(each, FakeTensor):
                    self.note_of_host(each)
        return out

    @contextlib.contextmanager
    def making(self, kind: str) -> Iterator[None]:
        """What is born meanwhile is of this kind."""
        before, self._making = self._making, kind
        try:
            yield
        finally:
            self._making = before

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """What is made meanwhile is no tensor of the script's."""
        before, self._planning = self._planning, True
        try:
            yield
        finally:
            self._planning = before

    @contextlib.contextmanager
    def on_device(self) -> Iterator[None]:
        """What is made without inputs meanwhile is on the device."""
        before, _now.of_call = self._of_call(), True
        try:
            yield
        finally:
            _now.of_call = before

    @staticmethod
    def _of_call() -> bool:
        return getattr(_now, "of_call", False)

    def _kind(self) -> str:
        if self._making:
            return self._making
        return "backward" if torch._C._current_graph_task_id() != -1 else "activation"

    def _on_host(self, func: Any, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
        """A real result where it is small; a fake one else."""
        given = sum(each.numel() * each.element_size() for each in tensors)
        if tensors and given <= TINY_BYTES and not _may_grow(func):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        try:
            with self.fakes:
                out = func(*args, **kwargs)
            small = all(
                each.numel() * each.element_size() <= REAL_BYTES
                for each in tree_leaves(out)
                if isinstance(each, torch.Tensor)
            )
        except Exception:  # fakes cannot do it; the real ones may
            small = True
        if not small:
            return out
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def _fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            with self.fakes:
                out = func(*args, **kwargs)
                if func is aten.convolution.default and scratch.is_last(args[0], args[1]):
                    order = torch.channels_last if out.dim() == 4 else torch.channels_last_3d
                    out = torch.empty_like(out, memory_format=order)
                return out
        except DataDependentOutputException:
            if func is aten._local_scalar_dense.default:
                return self._some_value(args[0])
            raise
        except (DynamicOutputShapeException, UnsupportedOperatorException):
            if func not in SIZES_KNOWN:
                self.log.guessed("a size that depends on values: the largest was taken, or an equal share")
            with self.fakes:
                return largest(func, args, self._choices)

    def _some_value(self, tensor: Any) -> bool | int | float:
        """A value that nobody computed."""
        if tensor.dtype is torch.bool:
            self.log.guessed("a condition on values of the device: it was taken as false")
            return False
        if tensor.is_floating_point():
            return 1.0
        self.log.guessed("a whole number computed on the device: 1 was taken")
        return 1

    def _note(self, tensor: Any, kind: str) -> None:
        """Log its storage, if it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._numbers:
            return
        self._numbers[key] = self.log.born(storage.nbytes(), kind)
        self._watches[key] = weakref.ref(storage, lambda _: self._gone(key))

    def note_of_host(self, tensor: Any) -> None:
        """Count its storage as the host's, if it is new. What is `meta` takes nothing."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._numbers or key in self._of_host or tensor.fake_device.type != "cpu":
            return
        size = storage.nbytes()
        self._of_host[key] = weakref.ref(storage, lambda _: self._gone_from_host(key, size))
        self.log.host_live += size
        self.log.host_peak = max(self.log.host_peak, self.log.host_live)

    def _gone_from_host(self, key: int, size: int) -> None:
        del self._of_host[key]
        self.log.host_live -= size

    def _gone(self, key: int) -> None:
        del self._watches[key]
        self.log.died(self._numbers.pop(key))

    def resized(self, storage: Any, size: int) -> None:
        """FSDP frees and makes the memory of a storage that lives on."""
        key = storage._cdata
        if key in self._numbers:
            number = self._numbers[key]
            self.log.died(number)
            self._numbers[key] = self.log.born(size, self.log.kinds[number])


def _may_grow(func: Any) -> bool:
    """Whether the result may be far larger than what it is made of."""
    name = func.overloadpacket.__name__
    return name.startswith(("new_", "repeat", "constant_pad", "resize", "one_hot", "bincount"))


def install(mode: DeviceTensors) -> None:
    """Let tensors say where they would be, and go where the script sends them."""
    plain_to = torch.Tensor.to
    host_device = FakeTensor.device

    def device(self: Any) -> torch.device:
        return DEVICE if not _depth() and mode.holds(self) else host_device.fget(self)

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) not in (torch.Tensor, FakeTensor, torch.nn.Parameter):
            return plain_to(self, *args, **kwargs)
        other = args[0] if args else kwargs.get("other")
        if isinstance(other, torch.Tensor):
            target, dtype = ("device" if mode.holds(other) else "host"), other.dtype
            return mode.moved(self, target, dtype, kwargs.get("copy", False))
        copy = kwargs.pop("copy", False)
        where, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        if where is None:
            target = "device" if mode.holds(self) else "host"
        else:
            target = "device" if is_of_device(where) else where.type
        if target in ("device", "cpu", "host"):
            return mode.moved(self, "host" if target == "cpu" else target, dtype, copy, memory_format=layout)
        return plain_to(self, *args, **kwargs)

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return mode.moved(self, "device", memory_format=memory_format)

    def cpu(self: Any, memory_format: Any = None) -> Any:
        return mode.moved(self, "host")

    def plain(self: Any) -> Any:
        """Zeros in its place: numpy has no fakes."""
        mode.log.guessed("values of the device as an array: zeros were taken")
        with unset_fake_temporarily():
            return torch.zeros(self.shape, dtype=self.dtype)

    def numpy(self: Any, *, force: bool = False) -> Any:
        return plain(self).numpy()

    def tolist(self: Any) -> Any:
        return self.item() if not self.dim() else plain(self).tolist()

    torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu = to, cuda, cpu
    torch.Tensor.pin_memory = lambda self, device=None: self
    torch.Tensor.is_pinned = lambda self, device=None: False
    FakeTensor.device = property(device)
    FakeTensor.is_cuda = property(mode.holds)
    FakeTensor.is_cpu = property(lambda self: not mode.holds(self))
    FakeTensor.get_device = lambda self: 0 if mode.holds(self) else -1
    FakeTensor.numpy, FakeTensor.tolist = numpy, tolist
    FakeTensor.__array__ = lambda self, dtype=None, copy=None: numpy(self)
    FakeTensor.record_stream = lambda self, stream: None
    FakeTensor.__deepcopy__ = _copied
    _values_go_to_the_device(mode)
    _parameters_are_fakes(mode)
    plain_resize = torch.UntypedStorage.resize_

    def resize(self: Any, size: Any) -> Any:
        done = plain_resize(self, size)
        mode.resized(self, int(size))
        return done

    torch.UntypedStorage.resize_ = resize


def _copied(tensor: Any, memo: dict[int, Any]) -> Any:
    """`copy.deepcopy` by way of the storage would give views of it a storage of their own."""
    if id(tensor) not in memo:
        memo[id(tensor)] = made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for name, value in vars(tensor).items():
            if name not in vars(made):
                setattr(made, name, copy.deepcopy(value, memo))
        if tensor.grad is not None:
            made.grad = copy.deepcopy(tensor.grad, memo)
    return memo[id(tensor)]


def _values_go_to_the_device(mode: DeviceTensors) -> None:
    """`torch.tensor(values, device="cuda")` asks for the device itself: the tensor is made on the host and moved."""

    def making(plain: Any) -> Any:
        @functools.wraps(plain)
        def make(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **how: Any) -> Any:
            device = _default_device() if device is None else device
            if not is_of_device(device):
                return plain(
                    data, dtype=dtype, device=device, **how, **({"requires_grad": True} if requires_grad else {})
                )
            made = data if isinstance(data, torch.Tensor) else plain(data, dtype=dtype, device="cpu", **how)
            made = mode.moved(made, "device", dtype, copy=plain is plain_tensor)
            return made.detach().requires_grad_() if requires_grad else made

        return make

    plain_tensor, plain_new = torch.tensor, torch.Tensor.new_tensor

    def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, **how: Any) -> Any:
        if device is None and mode.holds(self):
            device = DEVICE
        if not is_of_device(device):
            return plain_new(self, data, dtype=dtype, device=device, **how)
        return torch.tensor(data, dtype=dtype or self.dtype, device=device, **how)

    torch.tensor, torch.as_tensor, torch.asarray = map(making, (plain_tensor, torch.as_tensor, torch.asarray))
    torch.Tensor.new_tensor = new_tensor


class NumberedDevices(TorchFunctionMode):
    """`torch.zeros(3, device=0)` and `torch.device(0)`: without a GPU torch knows no devices by number."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs and type(kwargs.get("device")) is int:
            kwargs = {**kwargs, "device": torch.device("cuda", kwargs["device"])}
        if func is torch.device and args and type(args[0]) is int:
            args = ("cuda", args[0])
        return func(*args, **(kwargs or {}))


def _default_device() -> Any:
    """That of `with torch.device(...)` and `torch.set_default_device`."""
    modes = reversed(_get_current_function_mode_stack())
    return next((each.device for each in modes if isinstance(each, DeviceContext)), None)


def _parameters_are_fakes(mode: DeviceTensors) -> None:
    """A module keeps its parameters when they move only if both sides are fakes: tied weights stay tied."""
    plain_new, plain_swap = torch.nn.Parameter.__new__, torch.utils.swap_tensors

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if data is not None and type(data) is torch.Tensor:
            data = mode.fakes.from_tensor(data.detach())
            mode.note_of_host(data)
        return plain_new(cls, data, requires_grad)

    def swap(first: Any, second: Any) -> None:
        """Modules swap fakes when they move; what the optimizer holds must stay the same object."""
        if is_traceable_wrapper_subclass(first):
            plain_swap(first, second)
        else:
            first.data = second.detach()

    torch.nn.Parameter.__new__ = staticmethod(new)
    torch.utils.swap_tensors = swap
