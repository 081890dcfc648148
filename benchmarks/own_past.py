# SPDX-License-Identifier: Apache-2.0
"""A bit that is stuck in one operation of a training that runs alone: does the guard see it by the training's own past?

Each run trains a small transformer on a stream of tokens with a rule in it. From the middle on, bits of one number, or
of one column, in the result or in the gradient of one layer are stuck. The same seeds are trained without a fault, too:
how much worse the loss becomes says what a finding was worth. No hook of keepstep is involved in the fault.

    python -m benchmarks.own_past --device cuda --runs 24 --jobs 6 --results own_past.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.silent_jobs.faults import SilentFault, fault

PLACES = ("attention", "inner", "outer")
"""Layers of a block whose result, or gradient, is wrong."""
TOKENS, WIDE, DEEP, LONG, ROWS = 64, 128, 3, 64, 16
LOOKS, LATE, NOTICED_S = 8, 200, 20.0
HARMED = 1.02


def drawn(number: int) -> tuple[str, bool, bool, SilentFault]:
    """The layer, whether its gradient is wrong, whether a whole column is; and the bits."""
    chance = random.Random(f"own past {number}")
    bits = fault("torch", 5 * number + 2, 1)  # a stuck one
    assert bits is not None
    return f"{chance.randrange(DEEP)}.{chance.choice(PLACES)}", chance.random() < 0.3, chance.random() < 0.5, bits


def train(number: int, steps: int, device: str, *, healthy: bool) -> None:
    if os.environ.get("KEEPSTEP", "off") != "off":  # there is no start-up hook where keepstep is not installed
        from keepstep.guard.startup_hook import start

        start()
    import torch

    torch.manual_seed(number)
    torch.set_num_threads(1)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(WIDE), torch.nn.LayerNorm(WIDE)
            self.attention, self.mixed = torch.nn.Linear(WIDE, 3 * WIDE), torch.nn.Linear(WIDE, WIDE)
            self.inner, self.outer = torch.nn.Linear(WIDE, 4 * WIDE), torch.nn.Linear(4 * WIDE, WIDE)

        def forward(self, x: Any) -> Any:
            parts = [each.unflatten(-1, (4, -1)).transpose(1, 2) for each in self.attention(self.first(x)).chunk(3, -1)]
            heard = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.mixed(heard.transpose(1, 2).flatten(2))
            return x + self.outer(torch.nn.functional.gelu(self.inner(self.second(x))))

    blocks = torch.nn.Sequential(*(Block() for _ in range(DEEP)))
    head = torch.nn.Linear(WIDE, TOKENS)
    model = torch.nn.Sequential(torch.nn.Embedding(TOKENS, WIDE), blocks, torch.nn.LayerNorm(WIDE), head).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    place, in_gradient, in_column, bits = drawn(number)
    now = 0

    def wrong(value: Any) -> Any:
        value = value.detach().clone(memory_format=torch.contiguous_format)
        words = value.view(torch.int32).flatten(0, -2) if in_column else value.view(torch.int32).view(-1)
        chosen = words[:, int(bits.word * words.shape[-1])] if in_column else words[int(bits.word * words.numel())]
        mask = bits.bits - (1 << 32) if bits.bits >> 31 else bits.bits
        chosen.copy_(chosen | mask if bits.at_one or bits.bits_are == "not finite" else chosen & ~mask)
        return value

    class Change(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            return value.clone() if in_gradient else wrong(value)

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            return wrong(slope) if in_gradient else slope

    layer = blocks.get_submodule(place)
    compute = layer.forward
    layer.forward = lambda x: Change.apply(compute(x)) if not healthy and now > steps // 2 else compute(x)
    source = torch.Generator().manual_seed(0)
    follows = torch.randint(0, TOKENS, (TOKENS, 4), generator=source)  # four tokens may follow each
    losses = []
    for now in range(1, steps + 1):
        chances = torch.randint(0, 4, (ROWS, LONG + 1), generator=torch.Generator().manual_seed(number * steps + now))
        rows = [torch.randint(0, TOKENS, (ROWS,), generator=source)]
        for at in range(LONG):
            rows.append(follows[rows[-1], chances[:, at]])
        tokens = torch.stack(rows, 1).to(device)
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if now > steps - LATE:
            losses.append(loss.detach())
        if now % (50 * LOOKS) == 0:  # as long as the guard's thread needs to read the looks so far
            time.sleep(1.2)
    print(f"LOSS {torch.stack(losses).mean().item()!r}", flush=True)
    if os.environ.get("KEEPSTEP") == "on":
        time.sleep(2.5)


def run(number: int, steps: int, device: str, *, guard: bool, healthy: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="keepstep-past-") as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
        env |= {"OMP_NUM_THREADS": "1", "KEEPSTEP": "on" if guard else "off", "KEEPSTEP_DIR": folder}
        env |= {"KEEPSTEP_OWN_PAST": str(LOOKS), "KEEPSTEP_COMPANION": "off"}
        words = ["--train", str(number), "--steps", str(steps), "--device", device, *(["--healthy"] if healthy else [])]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.own_past", *words], env=env, capture_output=True, text=True
        )
        took, said = time.monotonic() - began, re.search(r"^LOSS (\S+)$", done.stdout, re.M)
        facts = ("LeftItsPast", "FirstNonFinite")
        notes = [json.loads(line) for path in Path(folder).glob("*.notes.jsonl") for line in path.open()]
        found = {each["fact"]: each["fields"] for each in notes if each["fact"] in facts}
    loss = float(said[1]) if said else None
    return {"loss": loss, "found": found, "took_s": round(took, 1), "error": "" if said else done.stderr[-600:]}


def one(number: int, steps: int, device: str) -> dict[str, Any]:
    """A run with the fault, the same without it, and without the guard."""
    place, in_gradient, in_column, bits = drawn(number)
    what = f"{'column' if in_column else 'number'} of the {'gradient' if in_gradient else 'result'} of {place}"
    return {
        "number": number, "device": device, "what": what, "bits": f"{bits.bits:#x}", "bits_are": bits.bits_are,
        "at_one": bits.at_one, "place": place, "from": steps // 2,
        "faulty": run(number, steps, device, guard=True, healthy=False),
        "healthy": run(number, steps, device, guard=True, healthy=True),
        "without": run(number, steps, device, guard=False, healthy=True),
    }  # fmt: skip


def table(results: list[dict[str, Any]]) -> str:
    whole = [each for each in results if all(each[how]["loss"] is not None for how in ("healthy", "without"))]
    rows = ["| loss became | faults | left its past | not finite | neither |", "|---|---|---|---|---|"]
    by: dict[str, list[str]] = {"not finite": [], "higher by 16 %": [], "higher by 2 to 16 %": [], "as it was": []}
    for each in whole:
        loss = each["faulty"]["loss"]
        times = loss / each["healthy"]["loss"] if loss is not None else float("nan")
        kind = "higher by 16 %" if times > 1.16 else "higher by 2 to 16 %" if times > HARMED else "as it was"
        kind = kind if times == times and times != float("inf") else "not finite"
        found = each["faulty"]["found"]
        by[kind].append("past" if "LeftItsPast" in found else "infinite" if found else "")
    for kind, said in by.items():
        rows.append(f"| {kind} | {len(said)} | {said.count('past')} | {said.count('infinite')} | {said.count('')} |")
    alarms = sum(bool(each["healthy"]["found"]) for each in whole)
    same = sum(each["healthy"]["loss"] == each["without"]["loss"] for each in whole)
    seconds = statistics.median(each["healthy"]["took_s"] for each in whole) if whole else 0.0
    rows.append(f"\n{len(whole)} healthy runs: {alarms} alarms, {same} with the same loss as without the guard.")
    rows.append(f"A run took {seconds:.0f} s. A look every {LOOKS} steps.")
    broken = [each["number"] for each in results if each not in whole]
    return "\n".join(rows + ([f"These did not run: {broken}"] if broken else []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=1, help="side by side (1)")
    parser.add_argument("--steps", type=int, default=1_600)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, help="a file to which each run is added as a line, and that is read")
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--healthy", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train is not None:
        return train(asked.train, asked.steps, asked.device, healthy=asked.healthy)
    results = []
    if asked.results is not None and asked.results.exists():
        results = [json.loads(line) for line in asked.results.open()]
    known = {each["number"] for each in results}
    with ThreadPoolExecutor(asked.jobs) as pool:
        todo = [number for number in range(asked.runs) if number not in known]
        for done in as_completed([pool.submit(one, number, asked.steps, asked.device) for number in todo]):
            results.append(result := done.result())
            print(json.dumps(result), flush=True)
            if asked.results is not None:
                with asked.results.open("a") as stream:
                    stream.write(json.dumps(result) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
