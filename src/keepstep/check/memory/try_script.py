# SPDX-License-Identifier: Apache-2.0
"""Starts the dry run with the script's own interpreter, and reads what it saw."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep.check.memory.devices import Device
from keepstep.check.memory.framework import framework_of
from keepstep.cluster.launch_line import LaunchLine
from keepstep.errors import UserError

MOST_BYTES = 1 << 30
LAST_LINES = 12
AFTER_S = 20.0
"""So long the script goes on after its two steps."""
SPARE_S = 5.0
"""So long before its limit the dry run gives its answer."""
_START = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("keepstep", sys.argv[3], submodule_search_locations=[sys.argv[4]])
package = sys.modules["keepstep"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from keepstep.check.memory.dry_run.start import main
sys.path[:1] = []
main()
"""
"""keepstep itself is found by its place: nothing else of its environment comes into the script's."""
_OFFLINE = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "KEEPSTEP": "off",
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(frozen=True, kw_only=True)
class Tried:
    """``seen``: what the dry run wrote; if it wrote nothing, ``why``. ``said``: the script's last lines."""

    seen: dict[str, Any]
    why: str = ""
    said: tuple[str, ...] = ()


def try_script(
    line: LaunchLine,
    device: Device,
    ranks: int,
    limit_s: float,
    change: dict[str, Any] | None = None,
    after_s: float = AFTER_S,
    tell: Callable[[dict[str, Any]], None] = lambda news: None,
) -> Tried:
    """Run the script on tensors without content until two optimizer steps are done, and ``after_s`` more.

    ``change``: what is to be other than the script says, as ``dry_run/changes.py`` knows it. ``tell`` hears every few
    seconds where the script is.
    """
    if shutil.which(line.python) is None:
        raise UserError(f"program {line.python} not found", hint="give the command as you would type it in the shell")
    scratch = tempfile.mkdtemp(prefix="keepstep-memory-")
    try:
        more = {"change": change or {}, "after_s": after_s, "seconds": max(limit_s / 2, limit_s - SPARE_S)}
        return _tried(line, device, ranks, limit_s, scratch, more, tell)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tried(
    line: LaunchLine,
    device: Device,
    ranks: int,
    limit_s: float,
    scratch: str,
    more: dict[str, Any],
    tell: Callable[[dict[str, Any]], None],
) -> Tried:
    framework = framework_of(line)
    if device.tpu and framework != "jax":
        raise UserError(
            f"{device.name} is tried with JAX only", hint=f"{line.script or line.module} imports none of it"
        )
    if device.cpu and framework != "tensorflow":
        raise UserError("a training on processors is forecast for TensorFlow and Keras only")
    asked = {
        "script": line.script,
        "module": line.module,
        "framework": framework,
        "arguments": list(line.arguments),
        "own_folders": _own_folders(line),
        "name": device.name,
        "total": device.total,
        "capability": list(device.capability),
        "tpu": device.tpu,
        "cpu": device.cpu,
        "devices": min(ranks, 8),
        "ranks": ranks,
        "launched": ranks > 1 or line.ranks is not None,
        "scratch": scratch,
        **more,
    }
    package = Path(__file__).parents[2]
    env = {**os.environ, **dict(line.variables), **_OFFLINE}
    if line.precision:
        env["ACCELERATE_MIXED_PRECISION"] = line.precision
    answer, theirs = os.pipe()
    with tempfile.TemporaryFile() as said:
        command = [line.python, "-c", _START, json.dumps(asked), str(theirs)]
        command += [str(package / "__init__.py"), str(package)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=env,
            pass_fds=(theirs,),
            start_new_session=True,
        )
        os.close(theirs)
        try:
            body = _read(answer, time.monotonic() + limit_s, tell)
        finally:
            os.close(answer)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        last = _last_lines(said)
    if body is None:
        return Tried(seen={}, why=f"it had not made two optimizer steps after {limit_s:.0f} s", said=last)
    try:
        seen = json.loads(body)
    except ValueError:
        return Tried(seen={}, why=f"the dry run itself ended early (status {status})", said=last)
    if seen.get("ended") == "late" and "events" not in seen:
        where = f", at {seen['place']}" if seen["place"] else ""
        return Tried(seen={}, why=f"it had not made two steps after {limit_s:.0f} s{where}", said=last)
    if not seen.get("own"):
        return Tried(seen=seen, said=last)
    if seen["missing"] == asked["framework"]:
        return Tried(seen={}, why=f"{line.python} has no {asked['framework']}: name the Python that trains")
    return Tried(seen={}, why=f"the dry run could not begin: {seen['own']}", said=last)


def _read(answer: int, until: float, tell: Callable[[dict[str, Any]], None]) -> bytes | None:
    """The last line, when the other side has closed; None if that takes too long. Lines before it are news."""
    body = bytearray()
    while (left := until - time.monotonic()) > 0 and len(body) < MOST_BYTES:
        if not select.select([answer], [], [], left)[0]:
            break
        piece = os.read(answer, 1 << 20)
        if not piece:
            return bytes(body)
        body += piece
        while (end := body.find(b"\n")) >= 0:
            tell(json.loads(body[:end]))
            del body[: end + 1]
    return None


def _own_folders(line: LaunchLine) -> list[str]:
    """Lines of files in these folders are the user's."""
    folders = {os.path.dirname(os.path.abspath(line.script or "x")), os.getcwd()}
    return sorted(folder + os.sep for folder in folders if folder != os.sep)


def _last_lines(stream: Any) -> tuple[str, ...]:
    stream.seek(0, os.SEEK_END)
    stream.seek(max(0, stream.tell() - 20_000))
    return tuple(stream.read().decode(errors="replace").splitlines()[-LAST_LINES:])
