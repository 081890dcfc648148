# SPDX-License-Identifier: Apache-2.0
"""What a model computes from one input, before gradients are exchanged: recorded as it trains, or computed once more.

Each layer's result and each parameter's gradient are added up at once, so no copy of them is kept. A repeat begins from
the state that the first computation began from, and leaves the rank as it was: random numbers, buffers, gradients.
"""

from __future__ import annotations

import inspect
import io
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from keepstep.guard.adapters.torch.numbers.sums import Sums
from keepstep.signals.fingerprints import digest
from keepstep.signals.recomputed import Computed

LINES = 16
SEVERAL = "several backward passes go through one forward pass"
PLAIN = (bool, int, float, str, type(None))


class NotRepeatable(Exception):
    """This step cannot be computed once more; the words say why."""


@dataclass
class Given:
    """What a repeat needs."""

    inputs: Any
    buffers: list[Any]
    random: dict[str, Any]
    autocast: tuple[bool, Any]
    slopes: dict[int, Any] = field(default_factory=dict)
    """The gradient that came back into each output, by its place."""
    trained: list[str] = field(default_factory=list)
    """The parameters, in the order in which they got a gradient."""


class Record:
    """Sums of what is computed, in this order."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._sums = torch, Sums(torch)
        self._names: list[str] = []
        self._lines: list[Any] = []
        self._numbers: list[Any] = []
        self._failed: Exception | None = None

    def see(self, name: str, tensor: Any) -> None:
        """Never raises: it is called in the middle of the training's own passes."""
        try:
            self._see(name, tensor)
        except Exception as error:
            self._failed = error

    def see_all(self, name: str, thing: Any) -> None:
        """All tensors in what a layer gave, which may be of any class."""
        try:
            for each in _tensors(self._torch, thing):
                self._see(name, each)
        except Exception as error:
            self._failed = error

    def _see(self, name: str, tensor: Any) -> None:
        torch = self._torch
        if not tensor.is_floating_point() or tensor.layout is not torch.strided or not tensor.numel():
            return
        with torch.no_grad():
            tensor = tensor.detach()
            self._names.append(name)
            self._lines.append(self._sums.line(tensor))
            numbers = torch.nn.functional.pad(tensor.reshape(-1), (0, -tensor.numel() % LINES)).view(-1, LINES)
            size = numbers.abs().sum(dtype=torch.float64).reshape(1) / LINES
            self._numbers.append(torch.cat((numbers.sum(0, dtype=torch.float64), size)))

    def finish(self) -> list[Computed]:
        """Waits for the device."""
        if self._failed is not None:
            raise NotRepeatable(f"{type(self._failed).__name__}: {self._failed}"[:200])
        if not self._names:
            return []
        bits = self._sums.both(self._torch.stack(self._lines)).t().tolist()
        numbers = self._torch.stack(self._numbers).tolist()
        return [
            Computed(name, digest(each), tuple(floats[:-1]), floats[-1])
            for name, each, floats in zip(self._names, bits, numbers, strict=True)
        ]


class FirstTime:
    """Watches the forward and the backward pass of a training step, which stay what they are."""

    def __init__(self, torch: Any, module: Any, inputs: Any) -> None:
        self._torch, self._module = torch, module
        self._record = Record(torch)
        self._handles: list[Any] = []
        self._unusual = ""
        self._within: dict[int, set[int]] = {}
        """For each output, those that it was computed from."""
        self.given = Given(
            _sendable(torch, inputs), _copies(module), _random(torch, _device(module)), _autocast(torch, module)
        )
        self._layers = _watch_layers(module, self._record)

    def computed(self, outputs: Any) -> None:
        """The forward pass is over; the backward pass follows."""
        _remove(self._layers)
        trained = {place: each for place, each in enumerate(_tensors(self._torch, outputs)) if each.requires_grad}
        self._within = {place: _below(output.grad_fn, trained) for place, output in trained.items()}
        for place, output in trained.items():
            self._handles.append(output.register_hook(self._slope(place)))
        for name, each in self._module.named_parameters():
            if each.requires_grad:
                self._handles.append(each.register_hook(self._gradient(name)))

    def finish(self) -> tuple[Given, list[Computed]]:
        """Take away all hooks. Raises NotRepeatable where this was no plain forward and backward pass."""
        self.drop()
        slopes = self.given.slopes
        for place in tuple(slopes):
            for inner in self._within[place]:  # a loss and what it is made of: this part comes back by itself
                slopes.pop(inner, None)
        if self._unusual or not self.given.trained or not slopes:
            raise NotRepeatable(self._unusual or "no gradients came back through the model")
        return self.given, self._record.finish()

    def drop(self) -> None:
        _remove(self._layers)
        _remove(self._handles)

    @property
    def has_gradients(self) -> bool:
        return bool(self.given.trained)

    def _slope(self, place: int) -> Callable[[Any], None]:
        def see(slope: Any) -> None:
            if place in self.given.slopes:
                self._unusual = SEVERAL
            try:
                self.given.slopes[place] = slope.detach().clone()
            except Exception as error:  # no memory for it
                self._unusual = str(error)[:200]

        return see

    def _gradient(self, name: str) -> Callable[[Any], None]:
        def see(gradient: Any) -> None:
            if name in self.given.trained:
                self._unusual = SEVERAL
            self.given.trained.append(name)
            self._record.see(f"the gradient of {name}", gradient)

        return see


def repeat(torch: Any, module: Any, given: Given) -> list[Computed]:
    """The same once more, here."""
    device = _device(module)
    record, own_random, own_buffers = Record(torch), _random(torch, device), _copies(module)
    args, kwargs = given.inputs
    enabled, kind = given.autocast
    layers: list[Any] = []
    try:
        _put_buffers(module, given.buffers)
        _put_random(torch, device, given.random)
        layers = _watch_layers(module, record)
        with torch.enable_grad(), torch.autocast(device.type, dtype=kind, enabled=enabled):
            outputs = list(_tensors(torch, module(*args, **kwargs)))
        _remove(layers)
        known = dict(module.named_parameters())
        gradients = torch.autograd.grad(
            [outputs[place] for place in given.slopes],
            [known[name] for name in given.trained],
            list(given.slopes.values()),
            allow_unused=True,
        )
        for name, gradient in zip(given.trained, gradients, strict=True):
            if gradient is not None:
                record.see(f"the gradient of {name}", gradient)
        return record.finish()
    finally:
        _remove(layers)
        _put_buffers(module, own_buffers)
        _put_random(torch, device, own_random)


def packed(torch: Any, what: Any) -> bytes:
    stream = io.BytesIO()
    inspect.unwrap(torch.save)(what, stream)
    return stream.getvalue()


def unpacked(torch: Any, data: bytes, device: Any) -> Any:
    return inspect.unwrap(torch.load)(io.BytesIO(data), map_location=device, weights_only=True)


def _device(module: Any) -> Any:
    return next(module.parameters()).device


def _watch_layers(module: Any, record: Record) -> list[Any]:
    """Each layer without layers of its own says what it gave."""

    def watch(name: str) -> Callable[..., None]:
        def see(layer: Any, given: Any, result: Any) -> None:
            record.see_all(f"the result of {name or 'the model'}", result)

        return see

    leaves = ((name, each) for name, each in module.named_modules() if not next(each.children(), None))
    return [each.register_forward_hook(watch(name)) for name, each in leaves]


def _remove(handles: list[Any]) -> None:
    while handles:
        handles.pop().remove()


def _sendable(torch: Any, thing: Any) -> Any:
    """A copy: the program may change its batch later."""
    if isinstance(thing, torch.Tensor):
        if type(thing) is not torch.Tensor or thing.layout is not torch.strided:
            raise NotRepeatable(f"the input holds a {type(thing).__name__}")
        return thing.detach().clone()
    if isinstance(thing, list | tuple):
        return type(thing)([_sendable(torch, each) for each in thing]) if type(thing) in (list, tuple) else _no(thing)
    if isinstance(thing, dict) and type(thing) is dict:
        return {key: _sendable(torch, each) for key, each in thing.items()}
    return thing if isinstance(thing, PLAIN) else _no(thing)


def _no(thing: Any) -> Any:
    raise NotRepeatable(f"the input holds a {type(thing).__name__}, which is no tensor")


def _tensors(torch: Any, thing: Any) -> Iterator[Any]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, dict):
        for each in thing.values():
            yield from _tensors(torch, each)
    elif isinstance(thing, list | tuple):
        for each in thing:
            yield from _tensors(torch, each)


def _below(node: Any, outputs: dict[int, Any]) -> set[int]:
    """Those outputs that this operation's result depends on."""
    makers = {each.grad_fn: place for place, each in outputs.items() if each.grad_fn is not None}
    found, seen, waiting = set[int](), {node}, [node]
    while waiting and len(makers) > 1:
        for maker, _ in waiting.pop().next_functions:
            if maker is not None and maker not in seen:
                seen.add(maker)
                waiting.append(maker)
                if maker in makers:
                    found.add(makers[maker])
    return found


def _autocast(torch: Any, module: Any) -> tuple[bool, Any]:
    kind = _device(module).type
    return bool(torch.is_autocast_enabled(kind)), torch.get_autocast_dtype(kind)


def _copies(module: Any) -> list[Any]:
    return [each.detach().clone() for each in module.buffers()]


def _put_buffers(module: Any, values: list[Any]) -> None:
    for each, value in zip(module.buffers(), values, strict=True):
        each.data.copy_(value)


def _random(torch: Any, device: Any) -> dict[str, Any]:
    """The states of all generators that a model may use."""
    numpy = sys.modules.get("numpy")
    kind, keys, *rest = numpy.random.get_state() if numpy is not None else ("", None)
    of_numpy = (kind, keys.tolist(), *rest) if keys is not None else None
    found = {"torch": torch.get_rng_state(), "plain": json.dumps((random.getstate(), of_numpy))}
    return found | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def _put_random(torch: Any, device: Any, states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"].cpu())
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
    (version, keys, gauss), of_numpy = json.loads(states["plain"])
    random.setstate((version, tuple(keys), gauss))
    numpy = sys.modules.get("numpy")
    if numpy is not None and of_numpy is not None:
        numpy.random.set_state(of_numpy)
