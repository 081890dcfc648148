# SPDX-License-Identifier: Apache-2.0
"""``keepstep check memory``: try the script, print what it would need and whether that fits."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from keepstep.base.redact import redact, redacted
from keepstep.base.visible import visible
from keepstep.base.wording import count, shorten, size
from keepstep.check.memory.check_memory import SEARCH_S, Host, MemoryChecked, check_memory, short_place
from keepstep.check.memory.devices import CPU, DEVICES, amount, device_named
from keepstep.check.memory.forecast import Forecast
from keepstep.check.memory.host import HostForecast, HostRemedy
from keepstep.check.memory.remedies import Advice
from keepstep.cli.print_report import print_report, refuse_to_overwrite, say, write_page
from keepstep.cluster.launch_line import understood
from keepstep.errors import UserError
from keepstep.model.codec import to_dict

BAR = 30


def check_memory_verb(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    if asked.device == "list":
        for name, each in DEVICES.items():
            print(f"{name:10}  {size(each.total):>9}  {each.name}")
        cpu = device_named(CPU)
        print(f"{CPU:10}  {size(cpu.total):>9}  {cpu.name} (TensorFlow, Keras)")
        return 0
    if not asked.device:
        raise UserError(
            "no device is given", hint="for instance: keepstep check memory --device h200 -- python train.py"
        )
    if asked.ranks is not None and asked.ranks < 1:
        raise UserError("--ranks must be at least 1", hint=f"it is {asked.ranks}")
    if not asked.timeout > 0:
        raise UserError("--timeout must be more than 0", hint=f"it is {asked.timeout:g}")
    if asked.search is not None and not asked.search >= 0:
        raise UserError("--search must be 0 or more", hint=f"it is {asked.search:g}")
    if asked.save and not asked.save.endswith(".jsonl"):
        raise UserError("the FILE of --save must end with .jsonl", hint="for example memory-forecast.jsonl")
    for target in (asked.html, asked.save):
        refuse_to_overwrite(target, asked.force)
    device = device_named(asked.device)
    line = understood(asked.command[1:] if asked.command[:1] == ["--"] else asked.command)
    if line.shards:
        raise UserError(
            "what accelerate would shard with FSDP or DeepSpeed is not known here",
            hint="without these options the forecast is of a rank that holds everything",
        )
    if line.ranks_by_host and not asked.ranks:
        raise UserError(
            f"{line.ranks_by_host} leaves the number of ranks to the host", hint="say how many there will be: --ranks N"
        )
    ranks = asked.ranks or line.ranks or 1
    longest = longest_in(asked.data) if asked.data else None
    say(f"running the script on tensors without content, for at most {asked.timeout:.0f} s (--timeout)")
    if asked.search is None:
        say(f"where it may not fit, up to {SEARCH_S:.0f} s more go into what would help (--search)")
    checked = check_memory(line, device, ranks, asked.timeout, asked.search, _host(asked, ranks), longest, _tell)
    if not asked.json:
        _show(checked)
    report = redacted(checked.report)
    if asked.html:
        from keepstep.render.html import render_preflight

        write_page(asked.html, render_preflight(report, held=checked.held))
    if asked.save:
        _save(checked, asked.save)
    print_report(report, as_json=asked.json, also={"memory": _figures(checked)} if asked.json else None)
    return report.exit_status


def _tell(news: dict[str, Any]) -> None:
    where = short_place(news["place"]) or "loading"
    say(shorten(f"{news['after_s']:.0f} s: {where}, {count(news['steps'], 'step')} done", 70))


def longest_in(path: str) -> dict[tuple[str, str], int]:
    """As `keepstep check data` has found it, or finds it now."""
    from keepstep.check.data.look import DataRequest, look_at_data
    from keepstep.check.data.report.manifest import usual_place

    return look_at_data(DataRequest(paths=(path,), manifest=usual_place([path]))).longest


def _save(checked: MemoryChecked, target: str) -> None:
    """As lines of evidence, which `keepstep run` and `keepstep why` read."""
    if not checked.facts:
        say(f"did not write {target}: there is no forecast")
        return
    kept = [replace(each, fact=replace(each.fact, earlier=True)) for each in checked.facts]
    write_page(target, "".join(json.dumps(to_dict(each)) + "\n" for each in kept))


def _host(asked: argparse.Namespace, ranks: int) -> Host:
    total = amount(asked.host_memory) if asked.host_memory else None
    if asked.host_memory and not total:
        raise UserError(f"--host-memory {asked.host_memory} is no amount", hint="give an amount such as 512GB")
    each = asked.ranks_per_host if asked.ranks_per_host is not None else min(ranks, 8)
    if not 1 <= each <= ranks:
        raise UserError("--ranks-per-host must be between 1 and the ranks of the job", hint=f"it is {each} of {ranks}")
    return Host(each, total)


def _show(checked: MemoryChecked) -> None:
    for each in checked.said:
        say(f"  | {redact(each)[:76]}")
    if checked.forecast is not None:
        for each in _table(checked.forecast, checked.complete):
            print(visible(redact(each)))
        for each in _advice(checked.forecast, checked.advice) if checked.advice is not None else ():
            print(visible(redact(each)))
    if checked.host is not None:
        print("\n".join([*_of_host(checked.host), *_for_host(checked.host, checked.host_remedies)]))
    if checked.confined:
        print(f"\n{checked.confined}")
    print()


def _table(made: Forecast, complete: bool) -> list[str]:
    """The parts at the peak, and the interval; no verdict where a part of the training was not seen."""
    most = max(bytes_ for _, bytes_ in made.parts)
    lines = [f"{'at the peak':20}{'':>10}"]
    for name, bytes_ in made.parts:
        lines.append(f"  {name:20}{size(bytes_):>10}  {'#' * max(1, round(BAR * bytes_ / most))}")
    together = "tensors together" if made.framework == "torch" else "together"
    lines.append(f"  {together:20}{size(made.allocated):>10}  (allocated)")
    if made.framework == "torch":
        lines.append(f"  {'with gaps':20}{size(made.reserved):>10}  (reserved by PyTorch's allocator)")
    if made.lines:
        lines.append("made at")
        lines += [f"  {size(bytes_):>10}  {short_place(place)}" for place, bytes_ in made.lines]
    if not complete and made.verdict != "does not fit":
        return [*lines, "", "not established: this is what was seen before the script ended"]
    lines += ["", f"{made.verdict}: {size(made.low)} to {size(made.high)} of the {size(made.device.total)} that"]
    lines += [f"{made.device.name} has" + (", with CUDA's own share (assumed)" if made.framework == "torch" else "")]
    if made.verdict == "fits" and made.high > made.device.total and made.gets_by is not None:
        lines.append(f"it takes what there is; with {size(made.gets_by)} it gets by")
    return lines


def _figures(checked: MemoryChecked) -> dict[str, Any] | None:
    """What the tables say, in bytes, for programs that read the answer. None: the script put nothing on the device."""
    made, host, advice = checked.forecast, checked.host, checked.advice or Advice()
    if made is None:
        return None
    stands = checked.complete or made.verdict == "does not fit"
    return {
        "verdict": made.verdict if stands else "not established",
        "device": {"name": made.device.name, "bytes": made.device.total},
        "needs": {"least": made.low, "most": made.high},
        "allocated": made.allocated,
        "reserved": made.reserved,
        "parts": dict(made.parts),
        "made_at": [{"place": redact(short_place(place)), "bytes": bytes_} for place, bytes_ in made.lines],
        "remedies": [
            {
                "what": each.what,
                "needs": {"least": each.forecast.low, "most": each.forecast.high},
                "verdict": each.forecast.verdict,
                "script_ran_again": each.tried,
            }
            for each in advice.remedies
        ],
        "largest_batch": advice.largest,
        "host": None
        if host is None
        else {
            "ranks": host.ranks,
            "needs": {"least": host.low, "most": host.high},
            "in_dev_shm": host.shared,
            "verdict": host.verdict,
            "parts": {name: {"least": low, "most": high} for name, low, high in host.parts},
        },
    }


def _advice(made: Forecast, advice: Advice) -> list[str]:
    """Each remedy alone, with what it would need; and the largest batch."""
    lines = [""]
    if advice.remedies:
        lines.append(f"{'each remedy alone':32}{'saves':>8}  needs")
    for each in advice.remedies:
        other = each.forecast
        needs = f"{size(other.low)} to {size(other.high)}"
        mark = "" if each.tried else " *"
        lines.append(f"  {each.what + mark:30}{size(made.high - other.high):>8}  {needs:20} {other.verdict}")
    if not all(each.tried for each in advice.remedies):
        lines.append("  * the same log with other sizes; the rest ran the script again")
    if advice.largest is not None:
        found = f"{advice.largest} (now {advice.batch})" if advice.largest else "none, not even a batch of 1"
        lines.append(f"largest batch that surely fits: {found}")
        if advice.largest and advice.next_larger is None:
            lines[-1] += ", the largest that was tried"
    elif advice.batch is None:
        lines.append("largest batch: not searched, as neither an option nor a loader says the batch")
    lines += [shorten(f"not tried: {each}", 78) for each in advice.untried]
    return lines


def _of_host(made: HostForecast) -> list[str]:
    """What the ranks of a host need of its memory, and of /dev/shm."""
    together = " together" if made.ranks > 1 else ""
    lines = ["", f"on the host, {count(made.ranks, 'rank')}{together} (processes and workers assumed)"]
    for name, low, high in made.parts:
        lines.append(f"  {name:20}{size(low):>10}" + (f" to {size(high)}" if high > low else ""))
    if made.shared:
        lines.append(f"  of these in /dev/shm {size(made.shared):>9}  (Docker gives 64 MB unless told)")
    verdict = f"{made.verdict} there: " if made.verdict else "all of it: "
    of = f" of {size(made.total)}" if made.total else "; --host-memory SIZE asks for a verdict"
    return [*lines, f"{verdict}{size(made.low)} to {size(made.high)}{of}"]


def _for_host(made: HostForecast, remedies: tuple[HostRemedy, ...]) -> list[str]:
    lines = [f"{'each remedy alone':36}{'saves':>8}  needs"] if remedies else []
    for each in remedies:
        other = each.forecast
        needs = f"{size(other.low)} to {size(other.high)}"
        lines.append(f"  {each.what:34}{size(made.high - other.high):>8}  {needs:20} {other.verdict}")
    return lines
