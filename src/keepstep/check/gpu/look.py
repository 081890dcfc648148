# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check gpu` looks at: every visible GPU and some of the host's memory, all at once, and their counters.

No framework is imported here; the children import the user's own.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keepstep.base.wording import count, size
from keepstep.check.gpu.children import Child, attend
from keepstep.check.gpu.host_errors import host_errors
from keepstep.check.place import Collected, Place
from keepstep.model.facts.host import DevicesUnlike, DeviceWrong, HostErrors
from keepstep.sources.host import nvidia

FRAMEWORKS = ("torch", "jax")
DRIVER_EVERY_S = 2.0
JAX_MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
NO_DRIVER = "nvidia-smi does not answer: neither temperatures nor error counts are known"


@dataclass(frozen=True, kw_only=True)
class GpuRequest:
    """What to test, and within which bounds."""

    framework: str | None = None
    """torch or jax. None: the first that is installed."""
    device: str = "cuda"
    minutes: float = 1.0
    hottest: int = 85
    """A GPU that is hotter than this, in degrees Celsius, is left alone."""
    host_bytes: int = 1 << 30


@dataclass
class GpuUnderTest(Child):
    """A child that tests a GPU, and what the driver says about it meanwhile."""

    number: int = 0
    hottest: int | None = None
    slowed: str | None = None
    reading: nvidia.Reading | None = None
    """The last one."""
    index: int | None = None
    """The driver's number for it."""

    @property
    def name(self) -> str:
        known = self.said.get("device")
        return f"{self.label} ({known['name']})" if known and known["name"] != self.label else self.label


@dataclass
class GpuCheck:
    """One run of it. ``show`` is given a line about how far it is, now and then."""

    asked: GpuRequest
    show: Callable[[str], None] = lambda line: None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    interrupted: bool = False
    looked: Collected = field(default_factory=Collected)

    def __post_init__(self) -> None:
        self._place = Place(env=self.env, host=socket.gethostname())
        self._asked_driver = 0.0

    def look(self) -> Collected:
        """Test everything. What was seen stays known if Ctrl-C ends it."""
        gpus = self._gpus()
        host = self._host()
        before, errors_before = self._readings(), host_errors()
        if not self.interrupted:
            self.interrupted = not attend([*gpus, *host], lambda: self._watch(gpus, host))
        for gpu in gpus:
            self._conclude(gpu)
        self.compare(gpus)
        if gpus and self.asked.device != "cpu":
            self._counters(gpus, before)
        for child in host:
            self._conclude(child)
        self._host_errors(errors_before)
        return self.looked

    def _gpus(self) -> list[GpuUnderTest]:
        """A child for each device that the framework sees."""
        asked, where = self.asked, f"GPUs of {self._place.host}"
        found = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
        framework = asked.framework or next(iter(found), None)
        if framework is None or framework not in found:
            what = framework or "neither torch nor jax"
            self.looked.partly(where, f"{what} is{' not' if framework else ''} installed for this Python")
            return []
        self.show(f"{framework} counts the devices")
        counting = Child(framework, {"with": framework, "device": asked.device, "count": True}, JAX_MEMORY)
        self.interrupted = not attend([counting])
        many = counting.said.get("devices", {}).get("count", 0)
        if not many:
            failed = counting.said.get("failed", {}).get("why") or counting.ended_because
            none = "interrupted" if self.interrupted else f"{framework} sees no CUDA device"
            self.looked.partly(where, failed or none)
            return []
        named = [word for word in self.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
        visible = named if len(named) >= many else [str(number) for number in range(many)]
        task = {"with": framework, "device": asked.device, "seconds": asked.minutes * 60}
        return [
            GpuUnderTest("CPU", task, {"OMP_NUM_THREADS": "1"})
            if asked.device == "cpu"
            else GpuUnderTest(
                f"GPU {number}", task, {**JAX_MEMORY, "CUDA_VISIBLE_DEVICES": visible[number]}, number=number
            )
            for number in range(many)
        ]

    def _host(self) -> list[Child]:
        """A child for the host's memory: never more than half of what is free."""
        if self.asked.host_bytes <= 0:
            return []
        try:
            from keepstep.sources.host.capacity import room
        except ImportError:
            self.looked.unavailable("host memory", "psutil is not installed, so what is free is not known")
            return []
        most = min(self.asked.host_bytes, room()[1] // 2)
        return [Child("host memory", {"with": "host", "bytes": most})]

    def _readings(self) -> list[nvidia.Reading]:
        return (nvidia.readings() or []) if self.asked.device != "cpu" else []

    def _watch(self, gpus: list[GpuUnderTest], host: list[Child]) -> None:
        if gpus and time.monotonic() - self._asked_driver > DRIVER_EVERY_S:
            self._asked_driver = time.monotonic()
            self.temperatures(gpus)
        self.show(_line(gpus, host, self.asked))

    def temperatures(self, gpus: list[GpuUnderTest]) -> None:
        """Ask the driver, and leave alone what is too hot."""
        readings = self._readings()
        for gpu in gpus:
            gpu.reading = reading = _of(gpu, readings, len(gpus))
            if reading is None:
                continue
            gpu.index, gpu.slowed = reading.index, reading.slowed or gpu.slowed
            if reading.celsius is not None:
                gpu.hottest = max(gpu.hottest or 0, reading.celsius)
                if reading.celsius > self.asked.hottest:
                    gpu.end(f"it was stopped at {reading.celsius} °C")

    def _conclude(self, child: Child) -> None:
        """What one device got wrong, and how much was asked of it."""
        name, index = (child.name, child.index) if isinstance(child, GpuUnderTest) else (child.label, None)
        for wrong in child.wrong:
            known: dict[str, Any] = {key: value or None for key, value in wrong.items()}
            fact = DeviceWrong(device=name, index=index, **known)
            self.looked.add(self._place.saw(fact, name, _quote(fact)))
        why = child.said.get("failed", {}).get("why") or child.ended_because
        if why is None and "end" not in child.said:
            why = "interrupted" if self.interrupted else "there was no time for all bits of memory"
        if why is None:
            self.looked.checked(_extent(child))
        elif child.done.get("patterns") or child.done.get("products"):
            self.looked.partly(_extent(child), why)
        else:
            self.looked.unavailable(name, why)

    def compare(self, gpus: list[GpuUnderTest]) -> None:
        """The same bits on all devices of a kind."""
        kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for gpu in gpus:
            if "bits" in gpu.said:
                kinds[gpu.said["device"]["kind"]][gpu.said["bits"]["digest"]].append(gpu.label)
        for kind, digests in kinds.items():
            if len(digests) == 1:
                continue
            (most, many), (_, second) = Counter({each: len(labels) for each, labels in digests.items()}).most_common(2)
            others = digests[most] if many > second else []
            odd = [label for labels in digests.values() for label in labels if label not in others]
            fact = DevicesUnlike(kind=kind, odd=tuple(odd), others=tuple(others))
            quote = "; ".join(f"{', '.join(labels)}: {digest}" for digest, labels in digests.items())
            self.looked.add(self._place.saw(fact, f"the same computation on every {kind}", quote))

    def _counters(self, gpus: list[GpuUnderTest], before: list[nvidia.Reading]) -> None:
        """What the driver counted meanwhile."""
        self.temperatures(gpus)
        known = {each.index: each for each in nvidia.gpus()[0]}
        old = {each.index: each for each in before}
        if all(gpu.reading is None for gpu in gpus):
            self.looked.unavailable("the driver's counters", NO_DRIVER)
        for gpu in gpus:
            if gpu.reading is None or (seen := known.get(gpu.reading.index)) is None:
                continue
            earlier = old.get(gpu.reading.index)
            more = (gpu.reading.corrected or 0) - ((earlier.corrected if earlier else None) or 0)
            seen = replace(
                seen,
                uncorrected_errors=gpu.reading.uncorrected or 0,
                corrected_in_test=max(0, more),
                throttled=gpu.slowed or seen.throttled,
            )
            quote = f"{more} memory errors corrected in the test, {seen.uncorrected_errors} uncorrected in all"
            self.looked.add(self._place.saw(seen, f"GPU {seen.index}", quote))

    def _host_errors(self, before: list[HostErrors]) -> None:
        old = {each.where: each for each in before}
        found = host_errors()
        for each in found:
            earlier = old.get(each.where, HostErrors(where=each.where))
            during = (each.corrected, each.uncorrected) != (earlier.corrected, earlier.uncorrected)
            if each.corrected or each.uncorrected:
                quote = f"{each.where}: {each.corrected} corrected, {each.uncorrected} uncorrected"
                self.looked.add(self._place.saw(replace(each, during_test=during), "error counters", quote))
        if found:
            self.looked.checked(count(len(found), "error counter") + " of the host")


def _of(gpu: GpuUnderTest, readings: list[nvidia.Reading], many: int) -> nvidia.Reading | None:
    """By the device's own number; where that is not known, by its place, if the driver lists just as many."""
    uuid = gpu.said.get("device", {}).get("uuid")
    if uuid is not None:
        return next((each for each in readings if each.uuid == uuid), None)
    return readings[gpu.number] if len(readings) == many else None


def _extent(child: Child) -> str:
    done, parts = child.done, []
    if done.get("products"):
        parts.append(f"{count(done['products'], 'product')} ({', '.join(done['dtypes'])})")
    if child.without:
        parts.append(f"none in {', '.join(child.without)}")
    parts.append(f"{count(done.get('patterns', 0), 'pattern')} over {size(done.get('bytes', 0))} of memory")
    name = child.label
    if isinstance(child, GpuUnderTest):
        name = child.name
        if child.hottest is not None:
            parts.append(f"at most {child.hottest} °C")
        parts.append(f"by {child.said['device']['framework']}")
    return f"{name}: {', '.join(parts)}"


def _line(gpus: list[GpuUnderTest], host: list[Child], asked: GpuRequest) -> str:
    """At most 80 columns."""
    spent = max((gpu.done.get("spent_s", 0.0) for gpu in gpus), default=0.0)
    doing = next((gpu.done["doing"] for gpu in gpus if gpu.done), "starting")
    hot = max((gpu.hottest for gpu in gpus if gpu.hottest is not None), default=None)
    wrong = sum(each["count"] for child in (*gpus, *host) for each in child.wrong)
    words = [f"{spent:.0f} of {asked.minutes * 60:.0f} s", doing if gpus else "host memory"]
    words += [f"{hot} °C"] if hot is not None else []
    return ", ".join([*words, f"{wrong} wrong"])[:79]


def _quote(fact: DeviceWrong) -> str:
    what = {"product": f"a product in {fact.dtype}", "memory": "memory", "repeat": "the same computation again"}
    place = f" at {fact.place}" if fact.place else ""
    return f"{what[fact.what]}{place}: {fact.seen} instead of {fact.wanted}"
