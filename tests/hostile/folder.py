# SPDX-License-Identifier: Apache-2.0
"""One folder with everything an attacker could leave for us: small, and made anew by each test."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import lzma
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

from keepstep.signals import blackbox

ACTING = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x9b31m\x07\r\x08\u202egpj.exe\u2066\u200b\ufeff\x7f"
"""Title, clipboard, clear screen, a C1 sequence, bell, return, backspace, text turned around, no width, delete."""
MARKUP = "<script>window.owned=1</script><img src=x onerror=window.owned=1>\"'`--><svg onload=window.owned=1>${owned}"


def write_everything(folder: Path, *, bomb_bytes: int) -> None:
    """Bombs, brackets, pickles, control characters, markup, odd names and wrong types, and one real failure."""
    folder.mkdir(parents=True, exist_ok=True)
    logs(folder)
    bombs(folder, bomb_bytes)
    dumps(folder)
    own_files(folder / "guard")
    names(folder / "names")


def logs(folder: Path) -> None:
    lines = [
        "step 1 loss 0.5",
        f"{ACTING} {MARKUP} [rank1]: ValueError: {ACTING} {MARKUP} is no number",
        "Traceback (most recent call last):",
        f'  File "/job/{ACTING}{MARKUP}/train.py", line 3, in step{ACTING}',
        f"    raise KeyError('{ACTING}{MARKUP}')",
        f"KeyError: '{ACTING}{MARKUP}'",
        "Rank 99999999999999999999 timed out; world size 9999999999999, waiting for ranks 0, 99999999999",
        "TF_CONFIG=" + "[" * 50_000,
        '{"msg": "' + "\\ud800" * 10 + ACTING.encode("unicode_escape").decode().replace("\\x", "\\u00") + '"}',
        "[" * 60_000,
    ]
    (folder / "rank1.log").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass", newline="")
    (folder / "brackets.json").write_text('{"pg_config": {}, "profiling_name": ' + "[" * 200_000)
    (folder / "brackets.log").write_text("[" * 200_000 + "\n" + "{" * 200_000)
    (folder / "bytes.log").write_bytes(bytes(range(256)) + b"\n" + b"\xff\xfe\xed\xa0\x80 ValueError: \xc3\x28\n" * 20)


def bombs(folder: Path, size: int) -> None:
    zeros = b"step 1\n" + bytes(size)
    (folder / "bomb.log.gz").write_bytes(gzip.compress(zeros, 6))
    (folder / "bomb.log.bz2").write_bytes(bz2.compress(zeros))
    (folder / "bomb.log.xz").write_bytes(lzma.compress(zeros, preset=0))
    (folder / "cut.log.gz").write_bytes(gzip.compress(random.Random(16).randbytes(5000))[:-100])
    if importlib.util.find_spec("zstandard"):
        import zstandard

        (folder / "bomb.log.zst").write_bytes(zstandard.compress(zeros))


def dumps(folder: Path) -> None:
    shared: list[Any] = ["x"]
    for _ in range(30):
        shared = [shared] * 10
    entry = {
        "collective_seq_id": 1,
        "profiling_name": f"nccl:all_reduce{ACTING}{MARKUP}",
        "state": "started",
        "input_sizes": shared,
        "output_sizes": shared,
    }
    dump = {
        "pg_config": {"0": {"ranks": shared}},
        "entries": [entry],
        "pg_status": {"0": {"last_enqueued_collective": shared}},
    }
    (folder / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump, 2))
    (folder / "nccl_trace_rank_1").write_bytes(b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00touch\x85R.")
    (folder / "nccl_trace_rank_99999999999999999999").write_bytes(b"\x80\x02}()" + b"q\x00h\x00\x86" * 60 + b"K\x01u.")
    elf = bytearray(
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 4, 62, 1) + bytes(8) + struct.pack("<QQI", 64, 2**63, 0)
    )
    elf += struct.pack("<HHHHHH", 64, 56, 0xFFFF, 64, 0xFFFF, 0)
    (folder / "core.1").write_bytes(bytes(elf) + b"\xff" * 4096)


def own_files(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    wrong: list[Any] = [None, True, -1, 1e308, 10**400, "x", [], {}, "\ud800", 2**62]
    for number, value in enumerate(wrong):
        fields = dict.fromkeys(
            ("pid", "rank", "world", "host", "wall", "monotonic", "started", "files", "role", "attempt", "run"), value
        )
        (folder / f"rank{number}.box").write_bytes(_box(fields))
    (folder / "acting.box").write_bytes(
        _box(
            {
                "pid": 1,
                "rank": 1,
                "world": 2,
                "host": f"{ACTING}{MARKUP}",
                "wall": 1e9,
                "monotonic": 1,
                "files": [f"{ACTING}{MARKUP}"],
            }
        )
    )
    origin = {"source": f"{ACTING}{MARKUP}", "line": -1}
    notes: list[Any] = [
        {"fact": "PortTaken", "fields": {"port": value}, "origin": origin, "rank": {"index": 1}, "at": 1e9}
        for value in wrong
    ]
    notes += [
        {"fact": value, "fields": value, "origin": value, "rank": value, "at": value, "quote": value} for value in wrong
    ]
    notes += [
        {
            "fact": "NeverExchanged",
            "fields": {"world": 2**62, "steps": 100, "exchanged": 0},
            "origin": origin,
            "rank": {"index": 0},
            "quote": f"{ACTING}{MARKUP}",
        }
    ]
    _lines(folder / "wrong.notes.jsonl", [{"fact": "PlanNamed", "fields": {}}, *notes], "[" * 200_000)
    metrics: list[Any] = [
        {
            "schema": "keepstep.metrics/1",
            "at": value,
            "memory": {"total": value, "available": value},
            "ranks": {"0": {"steps": value, "own": value}},
        }
        for value in wrong
    ]
    metrics += [
        {
            "schema": "keepstep.metrics/1",
            "at": 1.0,
            "memory": {"total": 10**9, "available": 10**8},
            "ranks": {"²": {"steps": 1, "own": 1}, str(n): wrong},
        }
        for n in range(3)
    ]
    _lines(folder / "metrics.jsonl", [{"schema": "keepstep.metrics/1"}, *metrics], '{"schema": ')
    (folder / "arrivals.json").write_text(
        json.dumps(
            {
                "schema": "keepstep.arrivals/1",
                "logs": {"rank1.log": {"whole": [], "marks": [[value, value] for value in wrong]}},
            }
        )
    )
    (folder / "manifest.json").write_text(
        json.dumps({"schema": "keepstep.run/1", "attempts": [{"number": value} for value in wrong]})
    )


def names(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in (
        "1²3",
        "١٢٣",
        "rank²",
        "rank-1.log",
        "9" * 200,
        f"{ACTING}.log".replace("/", ""),
        MARKUP.replace("/", "_") + ".log",
        "new\nline.log",
        "--help",
        "...",
    ):
        (folder / name).write_text(f"RuntimeError: {name}\n", errors="surrogateescape")
    with open(os.fsencode(folder) + b"/not\xff\xfeutf8.log", "wb") as stream:
        stream.write(b"RuntimeError: x\n")


def _lines(path: Path, documents: list[Any], last: str) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in documents) + last)


def _box(who: dict[str, Any]) -> bytes:
    text = json.dumps(who).encode()[: blackbox.SLOT_SIZE - 4]
    head = bytearray(blackbox.HEADER_SIZE)
    blackbox.HEAD.pack_into(head, 0, blackbox.MAGIC, blackbox.RECORD.size, 16, 0, 0)
    blackbox.SLOT_HEAD.pack_into(head, blackbox.SLOTS[0], len(text))
    head[blackbox.SLOTS[0] + 4 : blackbox.SLOTS[0] + 4 + len(text)] = text
    kinds = [
        (blackbox.RecordKind.PHASE, 3, 0),
        (blackbox.RecordKind.STEP, 2**62, 5),
        (blackbox.RecordKind.COLLECTIVE, 3, -1),
        (blackbox.RecordKind.PLAN, -1, 1),
        (99, -1, -1),
    ]
    records = [
        blackbox.RECORD.pack(n, 2**64 - n, value, extra, kind, 2**32 - 1, n)
        for n, (kind, value, extra) in enumerate(kinds, 1)
    ]
    return bytes(head) + bytes(blackbox.RECORD.size) + b"".join(records)
