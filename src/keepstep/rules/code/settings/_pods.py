# SPDX-License-Identifier: Apache-2.0
"""The pods of Kubernetes manifests: how many there are, and what their containers run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from keepstep.model.facts import KubernetesObject
from keepstep.rules.api import EvidenceSet
from keepstep.rules.code.settings._settings import Settings, all_settings

Path = tuple[str, ...]
_OPTION = r"(?:^|[\s\"'])--{}(?:\s*=\s*|\s+)[\"']?(\d{{1,6}})(?=$|[\s\"'\\])"


@dataclass(frozen=True)
class Container:
    """A container of a group of pods."""

    file: Settings
    path: Path

    def env(self, *names: str) -> Path | None:
        """Where the value of the first of these variables stands, if it is written out."""
        for number in self.file.keys(*self.path, "env"):
            at = (*self.path, "env", number)
            text = self.file.text(*at, "value")
            if self.file.text(*at, "name") in names and text and not re.search(r"\$|\{\{", text):
                return (*at, "value")
        return None

    def words(self) -> Iterator[tuple[Path, str]]:
        """The entries of its command and arguments."""
        for part in ("command", "args"):
            if self.file.text(*self.path, part):
                yield (*self.path, part), self.file.text(*self.path, part)
            for number in self.file.keys(*self.path, part):
                yield (*self.path, part, number), self.file.text(*self.path, part, number)

    def option(self, *names: str) -> tuple[Path, int] | None:
        """A number that its command gives for an option, and where."""
        words = list(self.words())
        for name in names:
            pattern = re.compile(_OPTION.format(re.sub("[-_]", "[-_]", name)))
            for (path, word), (_, following) in zip(words, [*words[1:], ((), "")], strict=False):
                alone = word.startswith("--") and "=" not in word and " " not in word
                found = pattern.search(f"{word} {following}" if alone else word)
                if found is not None:
                    return path, int(found[1])
        return None

    def says(self, text: str) -> Path | None:
        """Where its command or its variables contain a text."""
        for each in self.file.below(*self.path):
            part = each.path[len(self.path) :][:1]
            if text in each.text and part in (("command",), ("args",), ("env",)):
                return each.path
        return None

    @property
    def is_torch(self) -> bool:
        text = " ".join(word for _, word in self.words())
        return bool(re.search(r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b", text))

    @property
    def gpus(self) -> tuple[Path, int] | None:
        for part in ("limits", "requests"):
            name = "resources" if self.file.get(*self.path, "resources") is not None else "resourcesPerNode"
            path = (*self.path, name, part, "nvidia.com/gpu")
            count = self.file.number(*path)
            if count is not None:
                return path, count
        return None


@dataclass(frozen=True)
class Pods:
    """Pods that are made from one template."""

    file: Settings
    kind: str
    spec: Path
    """Of the pod."""
    count: int | None
    """How many run at once; None: unknown."""
    count_path: Path
    job: Path = ()
    """Of the Job, where it is one."""

    def containers(self) -> Iterator[Container]:
        if self.kind == "TrainJob":  # its trainer has what elsewhere a container has
            yield Container(self.file, self.spec)
        for number in self.file.keys(*self.spec, "containers"):
            yield Container(self.file, (*self.spec, "containers", number))


def pods(seen: EvidenceSet) -> Iterator[Pods]:
    for file in all_settings(seen, KubernetesObject):
        yield from _of(file, file.evidence.fact.object_kind)


def _of(file: Settings, kind: str) -> Iterator[Pods]:
    if kind == "Job":
        yield _job(file, kind, ("spec",))
    elif kind == "CronJob":
        yield _job(file, kind, ("spec", "jobTemplate", "spec"))
    elif kind == "JobSet":
        for number in file.keys("spec", "replicatedJobs"):
            yield _job(file, kind, ("spec", "replicatedJobs", number, "template", "spec"))
    elif kind == "StatefulSet":
        yield Pods(file, kind, ("spec", "template", "spec"), _count(file, "spec", "replicas"), ("spec", "replicas"))
    elif kind == "TrainJob":
        at: Path = ("spec", "trainer")
        yield Pods(file, kind, at, file.number(*at, "numNodes"), (*at, "numNodes"))
    elif kind in ("PyTorchJob", "TFJob"):
        name = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}[kind]
        for role in file.keys("spec", name):
            at = ("spec", name, role)
            yield Pods(file, kind, (*at, "template", "spec"), _count(file, *at, "replicas"), (*at, "replicas"))


def _job(file: Settings, kind: str, at: Path) -> Pods:
    return Pods(file, kind, (*at, "template", "spec"), _count(file, *at, "parallelism"), (*at, "parallelism"), at)


def _count(file: Settings, *path: str) -> int | None:
    """One, if it is not said."""
    return 1 if file.get(*path) is None else file.number(*path)
