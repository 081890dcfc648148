# SPDX-License-Identifier: Apache-2.0
"""``keepstep check memory``: try the script, print what it would need and whether that fits."""

from __future__ import annotations

import argparse

from keepstep.base.redact import redact, redacted
from keepstep.base.visible import visible
from keepstep.base.wording import size
from keepstep.check.memory.check_memory import MemoryChecked, check_memory, short_place
from keepstep.check.memory.devices import DEVICES, device_named
from keepstep.check.memory.forecast import Forecast
from keepstep.check.memory.launch_line import EXAMPLE, understood
from keepstep.cli.print_report import print_report, say
from keepstep.errors import UserError

BAR = 30


def check_memory_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if asked.device == "list":
        for name, each in DEVICES.items():
            print(f"{name:10}  {size(each.total):>9}  {each.name}")
        return 0
    if not asked.device:
        raise UserError("no device is given", hint=EXAMPLE)
    if asked.ranks is not None and asked.ranks < 1:
        raise UserError("--ranks must be at least 1", hint=f"it is {asked.ranks}")
    if not asked.timeout > 0:
        raise UserError("--timeout must be more than 0", hint=f"it is {asked.timeout:g}")
    device = device_named(asked.device)
    line = understood(asked.command[1:] if asked.command[:1] == ["--"] else asked.command)
    checked = check_memory(line, device, asked.ranks or line.ranks or 1, asked.timeout)
    if not asked.json:
        _show(checked)
    report = redacted(checked.report)
    print_report(report, as_json=asked.json)
    return report.exit_status


def _show(checked: MemoryChecked) -> None:
    for each in checked.said:
        say(f"  | {redact(each)[:76]}")
    if checked.forecast is not None:
        for each in _table(checked.forecast, checked.complete):
            print(visible(redact(each)))
    if checked.confined:
        print(f"\n{checked.confined}")
    print()


def _table(made: Forecast, complete: bool) -> list[str]:
    """The parts at the peak, and the interval; no verdict where a part of the training was not seen."""
    most = max(bytes_ for _, bytes_ in made.parts)
    lines = [f"{'at the peak':20}{'':>10}"]
    for name, bytes_ in made.parts:
        lines.append(f"  {name:20}{size(bytes_):>10}  {'#' * max(1, round(BAR * bytes_ / most))}")
    lines.append(f"  {'tensors together':20}{size(made.allocated):>10}  (allocated)")
    lines.append(f"  {'with gaps':20}{size(made.reserved):>10}  (reserved by PyTorch's allocator)")
    if made.lines:
        lines.append("made at")
        lines += [f"  {size(bytes_):>10}  {short_place(place)}" for place, bytes_ in made.lines]
    if not complete and made.verdict != "does not fit":
        return [*lines, "", "not established: this is what was seen before the script ended"]
    lines += ["", f"{made.verdict}: {size(made.low)} to {size(made.high)} of the {size(made.device.total)} that"]
    lines += [f"{made.device.name} has, with CUDA's own share (assumed)"]
    return lines
