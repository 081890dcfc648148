# SPDX-License-Identifier: Apache-2.0
"""What a program of XLA holds at once on a GPU, from its text before the compiler's own changes. Pure.

The rules are those of XLA for GPUs, simplified. What is computed element by element is not kept, but computed again
wherever it is used, unless a product, a loop or a caller needs it as an array. A buffer lives from the kernel
that makes it to the last one that reads it. The order of the kernels is the better of two: as written, and the one that
frees most first. A result may take the place of an operand that ends there.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

from keepstep.check.memory.hlo_text import Computation, Instruction, Module

KEPT = frozenset(
    (
        *("dot", "convolution", "reduce", "reduce-window", "select-and-scatter", "scatter", "sort", "fft", "rng"),
        *("rng-bit-generator", "while", "conditional", "custom-call", "dynamic-update-slice", "cholesky"),
        *("triangular-solve", "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute"),
        *("infeed", "recv", "send", "topk", "ragged-dot", "all-reduce-start", "all-gather-start"),
    )
)
"""Instructions whose result is an array in memory. All others are computed where they are used."""
READS_FUSED = {"reduce": 0, "scatter": 1, "dynamic-update-slice": 1}
"""Operands from this one on need not be arrays."""
IN_PLACE = frozenset(("scatter", "dynamic-update-slice"))
SAME = frozenset(("reshape", "bitcast", "copy", "optimization-barrier", "opt-barrier", "copy-done", "all-reduce-done"))
MARKERS = ("Sharding", "xla.sdy.", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
LIBRARY = {"convolution": "convolutions", "sort": "sorts", "fft": "Fourier transforms", "custom-call": "custom calls"}
"""What takes scratch memory that no plan of the program shows."""


@dataclass(slots=True)
class _Value:
    """One array. ``fused``: it has no buffer, but is computed where it is read."""

    size: int
    shape: str
    fused: bool
    operands: tuple[int, ...] = ()
    place: str = ""


@dataclass(slots=True)
class _Kernel:
    reads: list[int]
    makes: list[int]
    within: int = 0
    """What its inner computations hold besides."""
    shares: bool = False
    """A result may take the place of an operand that ends here."""
    named: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes. ``extra``: the most that is held at once besides the arguments, outputs included."""

    arguments: int
    outputs: int
    aliased: int
    extra: int
    largest: tuple[tuple[str, int], ...] = ()
    """What is held at that moment: shape and instruction, with the sum of their bytes."""
    largest_array: int = 0
    """Of those, the largest one alone."""
    scratch: int = 0
    """What libraries may take for a moment: at most about what they read and write."""
    libraries: tuple[str, ...] = ()
    low_precision: bool = False


ALWAYS_FUSED = frozenset(("broadcast", "convert", "compare", "slice", "transpose", "pad"))
"""What a framework that does not compile still does not hold as a rule: its operations read such things as they are."""


def plan(module: Module, *, compiled: bool = True) -> Plan:
    """The plan of the whole program. If it is not ``compiled``, each operation by itself makes an array."""
    entry = module.computations[module.entry]
    planner = _Planner(module, compiled, whole=True)
    parameters, results = planner.inline(entry)
    donated = {results[out]: parameters[number] for out, number in module.aliases.items() if out < len(results)}
    size = planner.values
    for number in module.donors:
        given = parameters[number]
        fits = (each for each in results if each not in donated and size[each].size == size[given].size)
        if (result := next(fits, None)) is not None:
            donated[result] = given
    extra, live = planner.peak(parameters, results, donated)
    sums: dict[str, int] = {}
    for each in live:
        name = f"{size[each].shape.partition('{')[0]} {size[each].place}".strip()
        sums[name] = sums.get(name, 0) + size[each].size
    return Plan(
        arguments=sum(size[each].size for each in parameters),
        outputs=sum(size[each].size for each in results),
        aliased=sum(size[each].size for each in donated),
        extra=extra,
        largest=tuple(sorted(sums.items(), key=lambda pair: -pair[1])[:5]),
        largest_array=max((size[each].size for each in live), default=0),
        scratch=planner.scratch,
        libraries=tuple(sorted(planner.libraries)),
        low_precision=planner.low_precision,
    )


class _Planner:
    """Walks one computation, with what it calls put in its place."""

    def __init__(self, module: Module, compiled: bool = True, *, whole: bool = False) -> None:
        self.module = module
        self.whole = whole
        """The program itself, and not a loop's body or a branch."""
        self.compiled = compiled
        self.values: list[_Value] = []
        self.kernels: list[_Kernel] = []
        self.scratch = 0
        self.libraries: set[str] = set()
        self.low_precision = False

    def _new(self, size: int, shape: str, *, fused: bool, operands: tuple[int, ...] = (), place: str = "") -> int:
        self.values.append(_Value(size, shape, fused, operands, place))
        return len(self.values) - 1

    def inline(self, computation: Computation) -> tuple[list[int], list[int]]:
        """Its parameters and results, leaf by leaf."""
        given: dict[int, list[int]] = {}
        for each in computation.instructions:
            if each.opcode == "parameter":
                made = [self._new(size, each.shape, fused=False, place="argument") for size in each.sizes]
                given[int(each.operands[0])] = made
        results = self._walk(computation, [given[number] for number in sorted(given)])
        return [leaf for number in sorted(given) for leaf in given[number]], results

    def _walk(self, computation: Computation, given: list[list[int]]) -> list[int]:
        known: dict[str, list[int]] = {}
        for each in computation.instructions:
            known[each.name] = self._one(each, known, given)
        return known[computation.root or computation.instructions[-1].name]

    def _one(self, each: Instruction, known: dict[str, list[int]], given: list[list[int]]) -> list[int]:
        opcode = each.opcode
        if opcode == "parameter":
            return given[int(each.operands[0])]
        if opcode in ("constant", "iota", "partition-id", "replica-id"):
            large = opcode == "constant" and each.sizes[0] > 1024
            return [self._new(each.sizes[0] if each.sizes else 0, each.shape, fused=not large, place=opcode)]
        operands = [known[name] for name in each.operands]
        flat = [leaf for one in operands for leaf in one]
        if opcode == "tuple":
            return flat
        if opcode == "get-tuple-element":
            return self._element(each, operands[0])
        if opcode == "call":
            return self._walk(self.module.computations[each.called[0]], operands)
        if opcode in SAME or (opcode == "custom-call" and any(f'target="{mark}' in each.text for mark in MARKERS)):
            return self._same(opcode, flat)
        if opcode == "after-all":
            return []
        if opcode == "dot" and any(kind in each.shape for kind in ("bf16", "f16", "f8")):
            self.low_precision = True
        if opcode not in KEPT:
            made = [self._new(size, each.shape, fused=True, operands=tuple(flat), place=opcode) for size in each.sizes]
            if not self.compiled and opcode not in ALWAYS_FUSED and flat:
                for leaf in made:
                    self._keep(leaf)
            return made
        return self._kernel(each, operands, flat)

    def _element(self, each: Instruction, whole: list[int]) -> list[int]:
        """Tuples are flat here, as JAX makes them."""
        index = int(each.text.partition("index=")[2].partition(",")[0] or 0)
        if not each.is_tuple:
            return [whole[index]] if index < len(whole) else [whole[-1]]
        return whole[index : index + len(each.sizes)]

    def _same(self, opcode: str, flat: list[int]) -> list[int]:
        """The same buffers. Behind a barrier they are values of their own, which wait for all that goes in."""
        if "barrier" not in opcode:
            return flat
        for leaf in flat:
            self._keep(leaf)
        made = [self._new(0, self.values[leaf].shape, fused=False, operands=(leaf,)) for leaf in flat]
        self.kernels.append(_Kernel(list(flat), made, named="barrier"))
        return made

    def _keep(self, leaf: int) -> None:
        """Make an array of what would have been computed where it is read."""
        value = self.values[leaf]
        if not value.fused:
            return
        value.fused = False
        self.kernels.append(_Kernel(self._read([leaf], own=True), [leaf], shares=True, named=value.place))

    def _read(self, leaves: list[int], *, own: bool = False) -> list[int]:
        """The arrays that these are computed from."""
        found: dict[int, None] = {}
        waiting = [operand for leaf in leaves for operand in self.values[leaf].operands] if own else list(leaves)
        seen = set(waiting)
        while waiting:
            leaf = waiting.pop()
            value = self.values[leaf]
            if not value.fused:
                found[leaf] = None
                continue
            for each in value.operands:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return list(found)

    def _kernel(self, each: Instruction, operands: list[list[int]], flat: list[int]) -> list[int]:
        opcode = each.opcode
        as_arrays = operands[: READS_FUSED[opcode]] if opcode in READS_FUSED else operands
        for one in as_arrays:
            for leaf in one:
                self._keep(leaf)
        within, results = 0, None
        if opcode in ("while", "conditional"):
            within, results = self._inside(each, operands, flat)
        reads = self._read(flat)
        if results is None:
            results = [self._new(size, each.shape, fused=False, place=opcode) for size in each.sizes]
        if opcode in LIBRARY:
            self.libraries.add(LIBRARY[opcode])
            moved = sum(self.values[leaf].size for leaf in (*reads, *results))
            self.scratch = max(self.scratch, moved if opcode != "custom-call" else 0)
        made = [leaf for leaf in results if leaf not in flat]
        shares = opcode in IN_PLACE or opcode in ("while", "all-reduce", "reduce")
        self.kernels.append(_Kernel(reads, made, within, shares, opcode))
        return results

    def _inside(self, each: Instruction, operands: list[list[int]], flat: list[int]) -> tuple[int, list[int] | None]:
        """What a loop's body or a branch holds, and the results: what a loop only passes on is its operand."""
        if each.opcode == "conditional":
            return max(self._within(name)[0] for name in each.called), None
        within, passed = self._within(each.called[-1])
        sizes = [self.values[leaf].size for leaf in flat]
        results = [
            flat[n] if n in passed else self._new(sizes[n], self.values[flat[n]].shape, fused=False, place="while")
            for n in range(len(flat))
        ]
        return within, results

    def _within(self, name: str) -> tuple[int, set[int]]:
        inner = _Planner(self.module, self.compiled)
        parameters, results = inner.inline(self.module.computations[name])
        passed = {n for n, pair in enumerate(zip(parameters, results, strict=False)) if pair[0] == pair[1]}
        donated = {result: given for given, result in zip(parameters, results, strict=False) if given != result}
        extra, _ = inner.peak(parameters, results, donated)
        self.scratch = max(self.scratch, inner.scratch)
        self.libraries |= inner.libraries
        self.low_precision |= inner.low_precision
        return extra, passed

    def peak(self, parameters: list[int], results: list[int], donated: dict[int, int]) -> tuple[int, list[int]]:
        """The most that is held besides the parameters, and what it is: compiled, in the better of two orders."""
        for leaf in results:
            self._keep(leaf)
        kernels = self._needed(results)
        better = [kernels, _freeing_first(kernels, self.values, set(parameters))]
        tries = better if self.compiled else [_as_ready(kernels)]
        return min((self._held(each, parameters, results, donated) for each in tries), key=lambda pair: pair[0])

    def _needed(self, results: list[int]) -> list[_Kernel]:
        """Without what nobody reads. An array is made where it is written; one made of others, where it is read."""
        makers = {leaf: kernel for kernel in self.kernels for leaf in kernel.makes}
        wanted, waiting = set(), [makers[leaf] for leaf in results if leaf in makers]
        while waiting:
            kernel = waiting.pop()
            if id(kernel) not in wanted:
                wanted.add(id(kernel))
                waiting += [makers[leaf] for leaf in kernel.reads if leaf in makers]
        return _in_order([kernel for kernel in self.kernels if id(kernel) in wanted], makers)

    def _held(
        self, kernels: list[_Kernel], parameters: list[int], results: list[int], donated: dict[int, int]
    ) -> tuple[int, list[int]]:
        last: dict[int, int] = {}
        for index, kernel in enumerate(kernels):
            for leaf in kernel.reads:
                last[leaf] = index
        holder = _holders(kernels, self.values, last)
        stays = {holder.get(leaf, leaf) for leaf in results} | set(parameters)
        own = {leaf for leaf in results if leaf not in donated and leaf not in parameters} if self.whole else set()
        live: dict[int, int] = {leaf: 0 for leaf in parameters} | {leaf: self.values[leaf].size for leaf in own}
        now = most = sum(live.values())  # XLA takes the room of results when the program starts
        at: list[int] = [leaf for leaf, size in live.items() if size]
        for index, kernel in enumerate(kernels):
            ending = [leaf for leaf in kernel.reads if last[leaf] == index and leaf in live and leaf not in stays]
            for leaf in kernel.makes:
                size = self.values[leaf].size
                if not size or leaf in own:
                    continue
                given = donated.get(leaf)
                if given is not None and (last.get(given, -1) < index or (kernel.shares and last[given] == index)):
                    live[leaf] = 0
                    continue
                if kernel.shares:
                    taken = next((each for each in ending if live[each] == size), None)
                    if taken is not None:
                        ending.remove(taken)
                        del live[taken]
                        live[leaf] = size
                        continue
                live[leaf] = size
                now += size
            if now + kernel.within > most:
                most, at = now + kernel.within, [each for each, size in live.items() if size]
            for leaf in ending:
                now -= live.pop(leaf)
            for leaf in kernel.makes:  # nobody reads it
                if leaf not in last and leaf not in stays and leaf in live:
                    now -= live.pop(leaf)
        return most, at


def _holders(kernels: list[_Kernel], values: list[_Value], last: dict[int, int]) -> dict[int, int]:
    """Behind a barrier a value is the one that went in: that one lives as long as any of them."""
    holder: dict[int, int] = {}
    for kernel in kernels:
        if kernel.named == "barrier":
            for leaf in kernel.makes:
                before = values[leaf].operands[0]
                holder[leaf] = holder.get(before, before)
    for leaf, first in holder.items():
        if leaf in last:
            last[first] = max(last.get(first, -1), last[leaf])
    return holder


def _in_order(kernels: list[_Kernel], makers: dict[int, _Kernel]) -> list[_Kernel]:
    """An array that one kernel needs was asked for after that kernel's own operands: makers go first."""
    done: set[int] = set()
    ordered: list[_Kernel] = []
    for start in kernels:
        waiting = [(start, False)]
        while waiting:
            kernel, is_ready = waiting.pop()
            if id(kernel) in done:
                continue
            if is_ready:
                done.add(id(kernel))
                ordered.append(kernel)
                continue
            waiting.append((kernel, True))
            waiting += [(makers[leaf], False) for leaf in kernel.reads if leaf in makers]
    return ordered


def _as_ready(kernels: list[_Kernel]) -> list[_Kernel]:
    """As TensorFlow's executor does: each as soon as what it reads is there, the one that waited longest first. What
    depends on no record, such as a decayed momentum, is there from the start of the step."""
    readers: dict[int, list[int]] = {}
    makers = {leaf: index for index, kernel in enumerate(kernels) for leaf in kernel.makes}
    missing = [len({makers[leaf] for leaf in kernel.reads if leaf in makers}) for kernel in kernels]
    for index, kernel in enumerate(kernels):
        for maker in {makers[leaf] for leaf in kernel.reads if leaf in makers}:
            readers.setdefault(maker, []).append(index)
    ready = deque(index for index, count in enumerate(missing) if not count)
    ordered = []
    while ready:
        index = ready.popleft()
        ordered.append(kernels[index])
        for reader in readers.get(index, ()):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return ordered


def _freeing_first(kernels: list[_Kernel], values: list[_Value], given: set[int]) -> list[_Kernel]:
    """Always the kernel next that frees most and takes least."""
    readers: dict[int, set[int]] = {}
    missing = []
    makers = {leaf: index for index, kernel in enumerate(kernels) for leaf in kernel.makes}
    for index, kernel in enumerate(kernels):
        for leaf in kernel.reads:
            readers.setdefault(leaf, set()).add(index)
        missing.append(len({makers[leaf] for leaf in kernel.reads if leaf in makers}))

    def gain(index: int) -> int:
        frees = sum(values[leaf].size for leaf in kernels[index].reads if leaf not in given and len(readers[leaf]) == 1)
        return frees - sum(values[leaf].size for leaf in kernels[index].makes)

    ready = [(-gain(index), index) for index, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    waits = {index for index, count in enumerate(missing) if not count}
    ordered: list[_Kernel] = []
    while ready:
        _, index = heapq.heappop(ready)
        if index not in waits:
            continue
        waits.discard(index)
        ordered.append(kernels[index])
        for leaf in kernels[index].reads:
            readers[leaf].discard(index)
            if len(readers[leaf]) == 1:
                (only,) = readers[leaf]
                if only in waits:
                    heapq.heappush(ready, (-gain(only), only))
        for reader in {each for leaf in kernels[index].makes for each in readers.get(leaf, ())}:
            missing[reader] -= 1
            if not missing[reader]:
                waits.add(reader)
                heapq.heappush(ready, (-gain(reader), reader))
    return ordered
