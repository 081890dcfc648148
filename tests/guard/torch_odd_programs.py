# SPDX-License-Identifier: Apache-2.0
"""Programs of one process as some people write them; each prints what it computed. Run by test_torch_odd_programs.py,
one after another in one process, as functions of a notebook would be."""

from __future__ import annotations

import copy
import gzip
import importlib.util
import inspect
import io
import itertools
import os
import pickle
import sys
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

found = importlib.util.find_spec("torch")  # before the import, as libraries do that have torch as an option
assert found is not None

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

PROGRAMS: dict[str, list[Callable[[], Any]]] = {"quick": [], "slow": []}
HERE = os.getcwd()


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS["quick"].append(function)
    return function


def slow(function: Callable[[], Any]) -> Callable[[], Any]:
    """One that compiles, or starts other processes."""
    PROGRAMS["slow"].append(function)
    return function


class Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


class Endless(IterableDataset[torch.Tensor]):
    """Knows no length, and refuses to be compared, hashed or asked whether it is true."""

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.full((4,), float(number)) for number in itertools.count())

    def __len__(self) -> int:
        raise NotImplementedError("nobody knows")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __bool__(self) -> bool:
        raise RuntimeError("asked")


class Batch(dict[str, Any]):
    """A batch whose attributes raise something else than AttributeError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise KeyError(name)


class Unsayable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Secret:
    @property
    def shape(self) -> Any:
        raise Unsayable

    dtype = shape


class Told(torch.Tensor):
    """A subclass that runs its own code for every function."""


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def train(net: nn.Module, batches: Any, optimizer: Any = None, most: int = 30) -> float:
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    loss = torch.zeros(())
    for batch in itertools.islice(batches, most):
        optimizer.zero_grad()
        loss = net(batch).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


@program
def several_optimizers() -> Any:
    net = model()
    parts = [torch.optim.Adam(each.parameters(), lr=1e-2) for each in net if isinstance(each, nn.Linear)]
    for _ in range(20):
        loss = net(torch.ones(3, 4)).mean()
        loss.backward()
        for each in parts:
            each.step()
            each.zero_grad()
    return loss.item()


@program
def an_empty_first_group_of_parameters() -> Any:
    net = model()
    groups = [{"params": [], "weight_decay": 0.1}, {"params": list(net.parameters())}]
    return train(net, itertools.repeat(torch.ones(2, 4)), torch.optim.AdamW(groups, lr=1e-2))


@program
def a_closure_that_is_called_often() -> Any:
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (net(torch.ones(2, 4)) - 3).square().mean()
        loss.backward()
        return loss

    return [float(optimizer.step(closure)) for _ in range(20)]


@program
def sparse_gradients() -> Any:
    torch.manual_seed(0)
    table = nn.Embedding(20, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    for step in range(40):
        table(torch.tensor([step % 20, 3])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return table.weight.sum().item()


@program
def scaled_and_mixed() -> Any:
    net, scaler = model(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(40):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(torch.ones(2, 4)).float().mean() * (float("inf") if step == 7 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return loss.item(), scaler.get_scale()


@slow
def compiled() -> Any:
    net = model()
    step = torch.compile(lambda x: net(x).square().mean(), backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(10):
        step(torch.ones(2, 4)).backward()
        optimizer.step()
        optimizer.zero_grad()
    take = torch.compile(optimizer.step, backend="eager")
    net(torch.ones(2, 4)).sum().backward()
    take()
    explained = torch._dynamo.explain(lambda x: net(x).square().mean())(torch.ones(2, 4))
    return net(torch.ones(1, 4)).item(), explained.graph_break_count


@program
def functional_gradients() -> Any:
    net = model()
    named = {name: each.detach() for name, each in net.named_parameters()}
    inputs = torch.arange(12.0).reshape(3, 4)

    def loss(values: Any, one: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, values, (one,)).sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(named, inputs)
    return sorted((name, value.sum().item()) for name, value in each.items())


@program
def an_own_function_and_hooks() -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            with torch.enable_grad():  # a backward pass inside a backward pass
                inner = torch.ones((), requires_grad=True)
                torch.autograd.backward(inner * 3)
            return slope * 2

    net, seen = model(), list[str]()
    net.register_forward_hook(lambda *_: seen.append("forward"))
    net.register_full_backward_hook(lambda *_: seen.append("backward"))
    for _ in range(3):
        Double.apply(net(torch.ones(1, 4))).sum().backward()
    torch.autograd.backward([net(torch.ones(1, 4)).sum(), net(torch.ones(1, 4)).mean()])
    torch.autograd.backward(tensors=(net(torch.ones(2, 4)),), grad_tensors=(torch.ones(2, 1),))
    try:
        net(torch.ones(2, 4)).backward()
    except RuntimeError as error:
        seen.append(str(error)[:40])
    return seen


@program
def operations_that_are_watched() -> Any:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    names = list[str]()

    class Strict(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "_local_scalar_dense" in str(func):
                raise RuntimeError("nobody may wait for a number")
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    class Plain(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with Strict():
        for _ in range(40):
            net(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    with Plain(), torch.device("cpu"):
        net(torch.ones(1, 4)).sum().backward()
    return len(names), names[:20]


def twice(loaders: list[Any]) -> list[int]:
    return [sum(1 for _ in each) for loader in loaders for each in (loader, iter(loader))]


@slow
def loaders_with_workers() -> Any:
    data = Numbers()
    several = DataLoader(data, 4, num_workers=1, persistent_workers=True)
    return twice([several, DataLoader(data, 4, num_workers=1, multiprocessing_context="spawn")])


@program
def loaders_of_all_kinds() -> Any:
    data = Numbers()
    kinds: list[Any] = [
        DataLoader(data),
        DataLoader(data, batch_sampler=[[0, 1], [5]]),
        DataLoader(data, batch_size=None),
        DataLoader([{"x": torch.ones(4)}, {"x": torch.zeros(4)}], collate_fn=lambda each: Batch(each[0])),  # type: ignore[arg-type]
        DataLoader(data, 5, shuffle=True, generator=torch.Generator().manual_seed(3)),
        DataLoader(range(3), collate_fn=lambda each: Secret()),  # type: ignore[arg-type]
    ]
    return twice(kinds), [type(each) is DataLoader for each in kinds], str(inspect.signature(DataLoader.__iter__))


@program
def a_loader_without_an_end() -> Any:
    loader = DataLoader(Endless(), 2)
    again = iter(loader)
    return train(model(), again), train(model(), loader), next(again)[0, 0].item()


@program
def a_loader_that_fails_and_goes_on() -> Any:
    class Bad(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 2:
                raise Unsayable
            return super().__getitem__(index)

    iterator, seen = iter(DataLoader(Bad())), list[str]()
    while True:
        try:
            next(iterator)
            seen.append("batch")
        except Unsayable:
            seen.append("Unsayable")
        except StopIteration as end:
            return [*seen, repr(end.value), repr(next(iterator, "over"))]


@program
def copied_and_pickled() -> Any:
    net, loader = model(), DataLoader(TensorDataset(torch.arange(32.0).reshape(8, 4)), 2)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    train(net, (each for (each,) in loader), optimizer)
    kinds = list[str]()
    for each in (net, optimizer, loader, torch.save, torch.load, torch.autograd.backward):
        again = pickle.loads(pickle.dumps(each))
        kinds.append(f"{type(again) is type(each)} {type(copy.deepcopy(each)).__name__}")
    _, other = copy.deepcopy((optimizer, scheduler))
    both = copy.deepcopy((net, optimizer))
    return kinds, train(*both[:1], itertools.repeat(torch.ones(1, 4)), both[1]), other.get_last_lr()


@program
def saved_in_odd_places() -> Any:
    sizes = list[Any]()
    with tempfile.TemporaryDirectory() as folder:
        stream = io.BytesIO()
        torch.save({"a": torch.ones(3), "b": {1, 2}, "c": slice(1)}, stream)
        stream.seek(0)
        sizes.append(sorted(torch.load(stream, weights_only=False)))
        with gzip.open(os.path.join(folder, "a.pt"), "wb") as packed:
            torch.save(torch.ones(3), packed)
        with zipfile.ZipFile(os.path.join(folder, "b.zip"), "w") as archive, archive.open("x.pt", "w") as inside:
            torch.save(torch.ones(3), inside, _use_new_zipfile_serialization=False)
        with tempfile.TemporaryFile() as file:
            torch.save(torch.ones(3), file)
        torch.save(obj=torch.ones(3), f=os.path.join(folder, "c.pt"))
        sizes.append(torch.load(f=os.path.join(folder, "c.pt"), weights_only=True).sum().item())
        for bad in ("a\0b.pt", 3.5, None, os.path.join(folder, "none", "d.pt"), folder):
            try:
                torch.save(torch.ones(1), bad)  # type: ignore[arg-type]
            except Exception as error:
                sizes.append(type(error).__name__)
        os.makedirs(gone := os.path.join(folder, "gone"))
        os.chdir(gone)
        os.rmdir(gone)
        try:
            for act in (lambda: torch.save(torch.ones(1), "here.pt"), lambda: torch.load("here.pt")):
                try:
                    act()
                except Exception as error:
                    sizes.append(type(error).__name__)
        finally:
            os.chdir(HERE)
        sizes.append([each for each in sorted(os.listdir(folder)) if each != ".keepstep"])
    return sizes


@slow
def exported_and_scripted() -> Any:
    net = model()
    script = torch.jit.script(net)
    loss = train(script, itertools.repeat(torch.ones(2, 4)), most=20)
    exported = torch.export.export(net, (torch.ones(2, 4),))
    return loss, exported.module()(torch.ones(2, 4)).sum().item()


@program
def parametrized_and_quantized() -> Any:
    net = model()
    nn.utils.parametrizations.weight_norm(net[0])  # type: ignore[index]
    nn.utils.parametrizations.orthogonal(net[2])  # type: ignore[index]
    loss = train(net, itertools.repeat(torch.ones(2, 4)))
    held = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    stream = io.BytesIO()
    torch.save(held, stream)
    return loss, held.dequantize().sum().item()


@program
def odd_tensors() -> Any:
    results = list[Any]()
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    results.append([type(each).__name__ for each in DataLoader([nested], collate_fn=lambda each: each[0])])  # type: ignore[arg-type]
    with torch.device("meta"):
        net = nn.Linear(3, 2)
        net(torch.ones(2, 3)).sum().backward()
        torch.optim.SGD(net.parameters(), lr=0.1).step()
    results.append(str(net.weight.grad.device))  # type: ignore[union-attr]
    told = torch.ones(4).as_subclass(Told).requires_grad_()
    told.sum().backward()
    results.append(type(told.grad).__name__)
    (torch.ones(2, dtype=torch.complex64, requires_grad=True) * 2).abs().sum().backward()
    torch.ones(2, 2, requires_grad=True).to_sparse().sum().backward()
    lazy = nn.LazyLinear(2)
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.set_default_device("cpu")
    results.append(train(model(), itertools.repeat(torch.ones(1, 4))))
    torch.set_default_device(None)
    return results


@slow
def fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(40):
            net(torch.ones(1, 3)).sum().backward()
            optimizer.step()
    return type(net.weight).__name__


@program
def in_threads() -> Any:
    losses = dict[int, float]()

    def work(number: int) -> None:
        losses[number] = train(net, DataLoader(Numbers(), 3))

    net = model()
    for number in range(3):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    return sorted(losses.items())


@program
def a_module_that_is_not_made_and_a_lost_loss() -> Any:
    class Half(nn.Module):
        def __init__(self) -> None:
            pass

    half, net = Half(), model()
    for _ in range(3):
        (net(torch.ones(1, 4)).mean() * 0).log().mul(0.0).backward()
    del half
    return [each.grad.isnan().any().item() for each in net.parameters() if each.grad is not None]


@program
def an_optimizer_that_answers_oddly() -> Any:
    class Odd(torch.optim.Optimizer):
        def __init__(self, held: Any) -> None:
            super().__init__(held, {"lr": torch.tensor(0.1), "betas": object()})

        def step(self, closure: Any = None) -> str:  # type: ignore[override]
            for group in self.param_groups:
                for each in group["params"]:
                    each.data.sub_(each.grad * group["lr"])
            return "stepped"

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        __hash__ = None  # type: ignore[assignment]

    net = model()
    optimizer = Odd(net.parameters())
    for _ in range(40):
        net(torch.ones(1, 4)).mean().backward()
        said = optimizer.step()
        net.zero_grad()
    return said, net(torch.ones(1, 4)).item(), str(inspect.signature(optimizer.step))


@program
def a_world_of_one() -> Any:
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        net = DistributedDataParallel(model())
        groups = [{"params": []}, {"params": list(net.parameters())}]
        loss = train(net, itertools.repeat(torch.ones(2, 4)), torch.optim.Adam(groups))
        given = [None]
        dist.all_gather_object(given, {"a": 1})
        work = dist.all_reduce(torch.ones(2), async_op=True)
        refused = list[str]()
        for act in (lambda: dist.all_reduce("x"), lambda: dist.broadcast(torch.ones(1), src=7)):  # type: ignore[arg-type]
            try:
                act()
            except Exception as error:
                refused.append(type(error).__name__)
        dist.new_group([0])
        dist.barrier()
        again = copy.deepcopy(net.module), pickle.loads(pickle.dumps(dist.all_reduce))
        done = work.wait() if work is not None else None
        dist.destroy_process_group()
    return loss, given, refused, done, again[1] is dist.all_reduce, DataParallel(model())(torch.ones(1, 4)).item()


def main() -> None:
    torch.set_num_threads(1)
    for each in PROGRAMS[sys.argv[1]]:
        try:
            print(each.__name__, each(), flush=True)
        except BaseException:
            print(each.__name__, "failed:", flush=True)
            traceback.print_exc(limit=-1, file=sys.stdout)


if __name__ == "__main__":
    main()
