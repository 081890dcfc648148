# SPDX-License-Identifier: Apache-2.0
"""``tf.data``: the real graph of a dataset, a copy of it that shares no state, and the time of its stages."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from keepstep.check.live.sampling import Limit
from keepstep.model.facts.pipeline import PipelineSeen

_WORDS = {
    "Shuffle": "shuffle",
    "ShuffleAndRepeat": "shuffle",
    "Shard": "shard",
    "AutoShard": "shard",
    "Batch": "batch",
    "PaddedBatch": "batch",
    "MapAndBatch": "batch",
    "Repeat": "repeat",
    "Cache": "cache",
    "Prefetch": "prefetch",
    "Map": "map",
    "Filter": "filter",
    "Take": "take",
    "Skip": "skip",
    "Interleave": "interleave",
    "FlatMap": "interleave",
    "Rebatch": "rebatch",
    "Unbatch": "unbatch",
}
_SILENT = ("Options", "Model", "Optimize", "MaxIntraOpParallelism", "PrivateThreadPool", "AssertCardinality")
"""Stages that change nothing about the data."""
_TIMED_BATCHES = 4
"""Batches' worth of elements that are read to time a stage."""
_NOTABLE = 0.3
"""The part of all time that a stage must take to be named."""


class TensorFlow:
    library = "tf.data"

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None:
        graph = Graph(dataset)
        found = tuple(graph.said(node) for node in graph.chain if graph.kind(node) not in _SILENT)
        return PipelineSeen(library=self.library, stages=found, of_rank=rank, ranks=ranks)

    def readable(self, dataset: Any) -> Iterable[Any]:
        """A copy without shared state: reading the original would move its shuffles on and fill its caches."""
        return Graph(dataset).copy(dataset.element_spec).as_numpy_iterator()  # type: ignore[no-any-return]

    def limit(self, dataset: Any, seconds: float) -> Limit | None:
        """The stage that adds the most time: each beginning of the pipeline is read alone."""
        graph = Graph(dataset)
        per_batch = graph.elements_per_batch()
        until = time.monotonic() + seconds
        before, worst = 0.0, None
        for node, elements in zip(graph.chain, per_batch, strict=True):
            if graph.kind(node) in _SILENT or graph.word(node) in ("prefetch", "repeat", "cache"):
                continue
            took = graph.time_of(node, elements, until)
            if took is None:
                return None
            if worst is None or took - before > worst.per_batch_s:
                worst = Limit(what=f"stage {graph.said(node)[0]} ({node.op})", per_batch_s=took - before)
            before = max(before, took)
        return worst if worst is not None and worst.per_batch_s >= _NOTABLE * before else None


class Graph:
    """The serialised graph of a dataset, and its main chain of stages, from the source to the end."""

    def __init__(self, dataset: Any) -> None:
        self._tf = sys.modules["tensorflow"]
        text = dataset._as_serialized_graph().numpy()
        self.graph = self._tf.compat.v1.GraphDef.FromString(text)
        self.nodes = {node.name: node for node in self.graph.node}
        end = next(node for node in self.graph.node if node.op == "_Retval")
        self.chain: list[Any] = []
        at = self._input(end)
        while at is not None:
            self.chain.insert(0, at)
            at = self._input(at)

    def _input(self, node: Any) -> Any:
        for name in node.input:
            before = self.nodes.get(name.partition(":")[0].lstrip("^"))
            if before is not None and "Dataset" in before.op:
                return before
        return None

    def kind(self, node: Any) -> str:
        """``ParallelMapDatasetV2`` is a Map."""
        return re.sub(r"^(?:Experimental|Legacy|Parallel)+|Dataset(?:V\d)?$|V\d$", "", node.op).removesuffix("Dataset")

    def word(self, node: Any) -> str:
        return _WORDS.get(self.kind(node), "source" if node is self.chain[0] else "map")

    def constant(self, node: Any, place: int) -> Any:
        """The constant that a stage gets as its input number ``place``; None if it is not one."""
        if place >= len(node.input):
            return None
        source = self.nodes.get(node.input[place].partition(":")[0])
        if source is None or source.op != "Const":
            return None
        return self._tf.make_ndarray(source.attr["value"].tensor).item()

    def said(self, node: Any) -> tuple[str, str]:
        """What a stage does, and how."""
        word = self.word(node)
        if word == "shuffle":
            seeds = self.constant(node, 2), self.constant(node, 3)
            fixed = "no seed" if seeds == (0, 0) else f"seed {seeds[0]}, {seeds[1]}"
            again = "" if node.attr["reshuffle_each_iteration"].b else ", the same in every epoch"
            return word, f"buffer {self.constant(node, 1)}, {fixed}{again}"
        if word == "shard":
            return word, f"{self.constant(node, 2)} of {self.constant(node, 1)}"
        if word in ("batch", "repeat", "prefetch", "take", "skip"):
            return word, str(self.constant(node, 1))
        return word, self.kind(node) if word in ("map", "source") else ""

    def elements_per_batch(self) -> list[int]:
        """How many elements each stage yields for one element of the last one."""
        found, product = [], 1
        for node in reversed(self.chain):
            found.append(product)
            if self.word(node) == "batch":
                size = self.constant(node, 2 if self.kind(node) == "MapAndBatch" else 1)
                product *= max(int(size or 1), 1)
        return found[::-1]

    def copy(self, element_spec: Any, end: Any = None) -> Any:
        """The dataset up to a stage, as one that shares neither the state of shuffles nor caches with the original."""
        graph = self._tf.compat.v1.GraphDef()
        graph.CopyFrom(self.graph)
        instead: dict[str, str] = {}
        for node in graph.node:
            if node.op.startswith(("CacheDataset", "SnapshotDataset")):
                instead[node.name] = node.input[0]
            elif node.op == "ShuffleDatasetV3":
                node.op = "ShuffleDataset"
                del node.input[4:]
        for node in graph.node:
            for place, name in enumerate(node.input):
                while name in instead:
                    name = instead[name]
                node.input[place] = name
            if end is not None and node.op == "_Retval":
                node.input[0] = instead.get(end.name, end.name)
        variant = self._tf.raw_ops.DatasetFromGraph(graph_def=graph.SerializeToString())
        ops = sys.modules["tensorflow.python.data.ops.dataset_ops"]
        return ops._VariantDataset(variant, element_spec)

    def time_of(self, node: Any, elements: int, until: float) -> float | None:
        """Seconds per batch up to a stage; None if there is no time left, or the pipeline ends too early.

        The elements are counted inside TensorFlow, because handing each of them to Python takes longer than making it.
        What it takes to start the pipeline is left out.
        """
        spec = self._spec_of(node)
        if spec is None:
            return None
        dataset = self.copy(spec, node)
        taken = []
        for batches in (1, 1 + _TIMED_BATCHES):
            if time.monotonic() > until:
                return None
            begun = time.monotonic()
            read = dataset.take(batches * elements).reduce(self._tf.constant(0), lambda number, *_: number + 1)
            if int(read) < batches * elements:
                return None
            taken.append(time.monotonic() - begun)
        return max(0.0, taken[1] - taken[0]) / _TIMED_BATCHES

    def _spec_of(self, node: Any) -> Any:
        """What a stage yields, by the types and shapes that its node states; None where it states them otherwise."""
        tf = self._tf
        types = [
            tf.dtypes.as_dtype(each) for name in ("output_types", "Toutput_types") for each in node.attr[name].list.type
        ]
        shapes = [tf.TensorShape(each) for each in node.attr["output_shapes"].list.shape]
        if not types or len(types) != len(shapes):
            return None
        specs = tuple(tf.TensorSpec(shape, type_) for shape, type_ in zip(shapes, types, strict=True))
        return specs[0] if len(specs) == 1 else specs
