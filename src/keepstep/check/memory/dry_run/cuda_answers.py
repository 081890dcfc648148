# SPDX-License-Identifier: Apache-2.0
"""What `torch.cuda` answers in the dry run: as a host with the named device would, and nothing happens."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch

from keepstep.check.memory.dry_run.device_tensors import DeviceTensors, is_of_device


def install(mode: DeviceTensors, name: str, total: int, capability: tuple[int, int], devices: int) -> None:
    """``devices``: how many this process would see."""
    cuda = torch.cuda
    properties = types.SimpleNamespace(
        name=name,
        total_memory=total,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=132,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block_optin=232_448,
        regs_per_multiprocessor=65_536,
        L2_cache_size=50 << 20,
        is_integrated=False,
        gcnArchName="",
    )
    log = mode.log

    def forget_peak(device: Any = None) -> None:
        log.peak = log.live

    def nothing(*_: Any, **__: Any) -> None:
        return None

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_compiled": lambda: True,
        "device_count": lambda: devices,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: name,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: capability >= (8, 0),
        "is_tf32_supported": lambda: capability >= (8, 0),
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "mem_get_info": lambda device=None: (total - log.live, total),
        "memory_allocated": lambda device=None: log.live,
        "memory_reserved": lambda device=None: log.live,
        "max_memory_allocated": lambda device=None: log.peak,
        "max_memory_reserved": lambda device=None: log.peak,
        "reset_peak_memory_stats": forget_peak,
        "reset_max_memory_allocated": forget_peak,
        "memory_summary": lambda *_, **__: "",
        "memory_stats": lambda device=None: {"allocated_bytes.all.current": log.live},
        "utilization": lambda device=None: 0,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "is_current_stream_capturing": lambda: False,
        "Stream": Stream,
        "Event": Event,
        "stream": lambda stream: contextlib.nullcontext(),
        "device": _Device,
        "device_of": _Device,
        **dict.fromkeys(
            (
                *("_lazy_init", "init", "set_device", "synchronize", "empty_cache", "ipc_collect", "manual_seed"),
                *("manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"),
                *("set_per_process_memory_fraction", "reset_accumulated_memory_stats", "set_stream", "cudart"),
            ),
            nothing,
        ),
    }
    for each, answer in answers.items():
        setattr(cuda, each, answer)
    for module in (cuda.memory, cuda.random, cuda.streams):
        for each in answers:
            if hasattr(module, each):
                setattr(module, each, answers[each])
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91_002
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    torch.accelerator.device_count = lambda: devices
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.current_stream = lambda device=None: Stream()
    torch.accelerator.set_device_index = torch.accelerator.synchronize = nothing
    torch.Generator = _Generator
    parse = torch._C._nn._parse_to

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        """`model.to(0)`: a number is a device."""
        if args and type(args[0]) is int:
            args = (torch.device("cuda", args[0]), *args[1:])
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        return parse(*args, **kwargs)

    torch._C._nn._parse_to = parse_to
    torch._C._get_accelerator = lambda: torch.device("cuda")
    torch.version.cuda = torch.version.cuda or "12.8"


class Stream:
    """Order matters to nobody here."""

    device, cuda_stream, stream_id = torch.device("cuda:0"), 0, 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def nothing(self, *_: Any, **__: Any) -> None: ...

    synchronize = wait_stream = wait_event = nothing

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        return event or Event()


class Event(Stream):
    record = wait = Stream.nothing

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class _Device(contextlib.nullcontext[None]):
    idx = 0


class _Generator(torch._C.Generator):
    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, device="cpu" if is_of_device(device) else device)
        return made

    def __init__(self, device: Any = "cpu") -> None: ...
