# SPDX-License-Identifier: Apache-2.0
"""The child process: ``python -m keepstep.check.gpu.child '{"with": "torch", ...}'`` tests one device and says so."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from keepstep.base.forked_calls import end_with_parent


def main() -> None:
    """Lines of JSON on standard output; what anything else prints goes to standard error."""
    end_with_parent()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(what: str, /, **fields: Any) -> None:
        print(json.dumps({"say": what, **fields}), file=stream, flush=True)

    asked = json.loads(sys.argv[1])
    try:
        _do(asked, say)
    except Exception as error:
        say("failed", why=f"{type(error).__name__}: {error}"[:500])
        stream.flush()
        os._exit(1)  # a device that failed may hang what runs at exit


def _do(asked: dict[str, Any], say: Any) -> None:
    from keepstep.check.gpu import host_memory, jax_device, torch_device
    from keepstep.check.gpu.exercise import Device, Exercise

    framework, kind = asked["with"], asked.get("device", "")
    if framework == "host":
        host_memory.exercise(asked["bytes"], say)
        return
    module = {"torch": torch_device, "jax": jax_device}[framework]
    if asked.get("count"):
        say("devices", count=module.devices(kind))
        return
    device: Device = torch_device.TorchDevice(kind) if framework == "torch" else jax_device.JaxDevice(kind)
    Exercise(device, kind, asked["seconds"], say).run()


if __name__ == "__main__":
    main()
