# SPDX-License-Identifier: Apache-2.0
"""A bit that is stuck in one operation of a training that runs alone: does the guard see it by the training's own past?

Each run trains a small transformer on a stream of tokens with a rule in it. From the middle on, bits are stuck in the
result or in the gradient of one layer: in one number, one column, or every eighth column. The same is trained without a
fault, too: how much worse the loss becomes says what a finding was worth. No hook of keepstep is involved in the fault.

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


WIDTHS = {"number": 0, "column": 1 << 30, "every eighth column": 8}
"""What is stuck: every so-manieth column, or one number."""


def drawn(number: int) -> tuple[str, bool, str, SilentFault]:
    """The layer, whether its gradient is wrong, how much of it is; and the bits."""
    chance = random.Random(f"own past {number}")
    bits = fault("torch", 5 * number + 2, 1)  # a stuck one
    assert bits is not None
    return f"{chance.randrange(DEEP)}.{chance.choice(PLACES)}", chance.random() < 0.5, chance.choice(list(WIDTHS)), bits


def train(number: int | None, steps: int, device: str) -> None:
    if os.environ.get("KEEPSTEP", "off") != "off":  # there is no start-up hook where keepstep is not installed
        from keepstep.guard.startup_hook import start

        start()
    import torch

    torch.manual_seed(0)
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
    place, in_gradient, wide, bits = drawn(number or 0)
    now = 0

    def wrong(value: Any) -> Any:
        value = value.detach().clone(memory_format=torch.contiguous_format)
        words = value.view(torch.int32).flatten(0, -2 if WIDTHS[wide] else -1)
        at = int(bits.word * words.shape[-1])
        chosen = words[:, at % WIDTHS[wide] :: WIDTHS[wide]] if WIDTHS[wide] else words[at]
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
    layer.forward = lambda x: Change.apply(compute(x)) if number is not None and now > steps // 2 else compute(x)
    source = torch.Generator().manual_seed(0)
    follows = torch.randint(0, TOKENS, (TOKENS, 4), generator=source)  # four tokens may follow each
    losses = []
    for now in range(1, steps + 1):
        chances = torch.randint(0, 4, (ROWS, LONG + 1), generator=torch.Generator().manual_seed(now))
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


def run(number: int | None, steps: int, device: str, *, guard: bool = True) -> dict[str, Any]:
    """With this fault, or with none."""
    with tempfile.TemporaryDirectory(prefix="keepstep-past-") as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
        env |= {"OMP_NUM_THREADS": "1", "KEEPSTEP": "on" if guard else "off", "KEEPSTEP_DIR": folder}
        env |= {"KEEPSTEP_OWN_PAST": str(LOOKS), "KEEPSTEP_COMPANION": "off"}
        words = ["--train", str(-1 if number is None else number), "--steps", str(steps), "--device", device]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.own_past", *words], env=env, capture_output=True, text=True
        )
        took, said = time.monotonic() - began, re.search(r"^LOSS (\S+)$", done.stdout, re.M)
        facts = ("LeftItsPast", "FirstNonFinite", "LossNotFinite")
        notes = [json.loads(line) for path in Path(folder).glob("*.notes.jsonl") for line in path.open()]
        found = {each["fact"]: each["fields"] for each in notes if each["fact"] in facts}
    result = {"number": number, "guard": guard, "loss": float(said[1]) if said else None, "found": found}
    if number is not None:
        place, in_gradient, wide, bits = drawn(number)
        result["what"] = f"{wide} of the {'gradient' if in_gradient else 'result'} of {place}"
        result |= {"bits": f"{bits.bits:#x}", "at_one": bits.at_one, "from": steps // 2}
    return result | {"took_s": round(took, 1), "error": "" if said else done.stderr[-600:]}


def table(results: list[dict[str, Any]]) -> str:
    whole = [each for each in results if each["loss"] is not None]
    healthy = [each for each in whole if each["number"] is None]
    usual = statistics.median(each["loss"] for each in healthy) if healthy else float("nan")
    rows = ["| the loss became | faults | left its past | not finite | neither |", "|---|---|---|---|---|"]
    by: dict[str, list[str]] = {"not finite": [], "higher by 16 %": [], "higher by 2 to 16 %": [], "as it was": []}
    for each in whole:
        if each["number"] is not None:
            times = each["loss"] / usual
            kind = "higher by 16 %" if times > 1.16 else "higher by 2 to 16 %" if times > HARMED else "as it was"
            kind = kind if abs(times) < float("inf") else "not finite"
            by[kind].append("past" if "LeftItsPast" in each["found"] else "infinite" if each["found"] else "")
    for kind, said in by.items():
        rows.append(f"| {kind} | {len(said)} | {said.count('past')} | {said.count('infinite')} | {said.count('')} |")
    guarded = [each for each in healthy if each["guard"]]
    alarms = sum(bool(each["found"]) for each in guarded)
    losses = {each["loss"] for each in healthy}
    rows.append(f"\n{len(guarded)} healthy runs: {alarms} alarms. {len(healthy)} with and without the guard ended with")
    rows.append(f"{len(losses)} different losses ({', '.join(f'{each:.6g}' for each in sorted(losses))}).")
    rows.append(f"A run took {statistics.median(each['took_s'] for each in whole):.0f} s. A look every {LOOKS} steps.")
    broken = [each["number"] for each in results if each["loss"] is None]
    return "\n".join(rows + ([f"These did not run: {broken}"] if broken else []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12, help="with a fault (12)")
    parser.add_argument("--healthy", type=int, default=2, help="without one, each with the guard and without it (2)")
    parser.add_argument("--jobs", type=int, default=1, help="side by side (1)")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, help="a file that is read, and to which runs are added")
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train is not None:
        return train(asked.train if asked.train >= 0 else None, asked.steps, asked.device)
    results = []
    if asked.results is not None and asked.results.exists():
        results = [json.loads(line) for line in asked.results.open()]
    known = {each["number"] for each in results}
    todo: list[tuple[int | None, bool]] = (
        [(None, guard) for guard in (True, False)] * asked.healthy * (None not in known)
    )
    todo += [(number, True) for number in range(asked.runs) if number not in known]
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = [pool.submit(run, number, asked.steps, asked.device, guard=guard) for number, guard in todo]
        for done in as_completed(waiting):
            results.append(result := done.result())
            print(json.dumps(result), flush=True)
            if asked.results is not None:
                with asked.results.open("a") as stream:
                    stream.write(json.dumps(result) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
