# SPDX-License-Identifier: Apache-2.0
"""Logs from their bytes to every form of the report, clusters from their variables, and a user's own signatures."""

from __future__ import annotations

import functools
import io
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from keepstep import cluster
from keepstep.analyze.why import explain_paths
from keepstep.base.launchers import LAUNCHERS
from keepstep.base.redact import redacted
from keepstep.base.visible import visible
from keepstep.cluster.node_count import nodes_named
from keepstep.cluster.tf_config import read_tf_config
from keepstep.extend.search_apart import SearchChild
from keepstep.extend.toml_signatures import read_signatures
from keepstep.model.report import Report
from keepstep.parse.scan.lines.rank_variables import member
from keepstep.render.bundle import write_bundle
from keepstep.render.excerpt import surroundings
from keepstep.render.html import render_html
from keepstep.render.json import render_json
from keepstep.render.terminal import render_terminal
from keepstep.sources.files.left_files import FileKind, LeftFile
from tests.fuzz.fuzzing import NUMBERS, SECONDS, TEXTS, VALUES, as_json, damaged, target, torn
from tests.render.made_reports import out_of_memory

RECORDINGS = Path(__file__).parents[1] / "recordings"
MOST_LINES = 400


@functools.cache
def lines() -> Sequence[bytes]:
    """Lines that trainings of the lab really printed, a few of each recording."""
    found: dict[bytes, None] = {}
    for path in sorted(RECORDINGS.glob("*/**/*.log"))[:: 1 if SECONDS else 5]:
        told = path.read_bytes()[:200_000].splitlines()
        found.update(dict.fromkeys(line[:400] for line in (*told[:3], *told[-12:]) if line.strip()))
    return list(found)[: None if SECONDS else MOST_LINES]


BLOCKS = (
    b"Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):\n"
    b'  File "a.py", line 3 in f\n\nExtension modules: numpy (total: 1)',
    b'Thread 123 (idle): "MainThread"\n    wait (threading.py:320)\n    step (train.py:3)',
    b'Thread 1 "python" received signal SIGSEGV, Segmentation fault.\n#0  0x00007f in foo () from /lib/libc.so.6\n'
    b"#1  0x1 in bar (a=1) at b.c:3",
    b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\nValueError: x',
    b"terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error\n"
    b"Exception raised from f at a.cpp:3 (most recent call first):\nframe #0: c10::f + 0x1 (0x7f in libc10.so)",
    b"[rank3]: RuntimeError: rank 99999999999999999999 of world size 99999999999999999999 timed out, missing "
    b"ranks: 0, 9999999999999999999",
    b"Stalled tensors/ops: [missing ranks: 999999999] x [ready ranks: 0, 9999999999]\n0: [a, b]",
    b'TF_CONFIG={"cluster": {"worker": [[[[',
    b'{"message": "\\ud800 \\u001b[2J", "rank": 1e999}',
    b"[node\xc2\xb2-rank\xd9\xa1] 2026-99-99T99:99:99 epoch 9999999999999999999 step 99999999999999999999/0 loss nan",
)


def a_line() -> st.SearchStrategy[bytes]:
    real = st.sampled_from(lines())
    return (
        real
        | st.sampled_from(BLOCKS)
        | real.flatmap(lambda line: torn(line, 2))
        | st.sampled_from(BLOCKS).flatmap(lambda block: torn(block, 3))
        | st.binary(max_size=60)
        | TEXTS.map(lambda text: text.encode(errors="replace"))
    )


def every_form(report: Report, files: Sequence[LeftFile]) -> None:
    """Nothing raises, and nothing that acts comes out."""
    report = redacted(report)
    page = render_html(report, surroundings(report, files))
    for text in (render_terminal(report, colour=False), page, render_json(report)):
        text.encode()
        assert visible(text) == text


@target(
    st.lists(st.deferred(a_line), min_size=1, max_size=12),
    st.lists(st.deferred(a_line), max_size=6),
    TEXTS,
    examples=50,
)
def test_logs(one: list[bytes], other: list[bytes], name: str) -> None:
    files = [
        LeftFile(None, label, FileKind.LOG, len(data), None, data)
        for label, data in (("rank0.log", b"\n".join(one)), (f"rank1{name}.log", b"\n".join(other)))
    ]
    explained = explain_paths([], more=files)
    assert not explained.report.crashed, explained.report.crashed
    every_form(explained.report, files)


@target(TEXTS | st.text(max_size=200), examples=20)
def test_reports_and_bundles_with_any_text_in_every_field(text: str) -> None:
    report = out_of_memory(4, text=text)
    every_form(report, [])
    with tempfile.TemporaryDirectory() as folder:
        data = f"step 1 {text}\n".encode(errors="replace")
        out = write_bundle(
            report,
            [e for finding in report.findings for e in finding.evidence],
            [LeftFile(None, f"rank3{text}.log", FileKind.LOG, len(data), None, data)],
            Path(folder) / "b.tar.gz",
        )
        with tarfile.open(fileobj=io.BytesIO(out.read_bytes())) as bundle:
            for entry in bundle:
                stream = bundle.extractfile(entry)
                assert stream is not None
                held = stream.read().decode()
                assert visible(held) == held and visible(entry.name) == entry.name


CONFIG: Any = {
    "cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"]},
    "task": {"type": "worker", "index": 0},
}


@target(
    damaged(CONFIG).map(as_json)
    | VALUES.map(as_json)
    | TEXTS
    | torn(as_json(CONFIG).encode()).map(lambda data: data.decode(errors="replace")),
    examples=100,
)
def test_tf_config(text: str) -> None:
    read_tf_config(text)
    member({"TF_CONFIG": text}, [])


NAMES = [
    *(name for each in LAUNCHERS for name in (*each.of_one_rank, *each.size, *each.local_size, *each.job)),
    "GROUP_RANK",
    "NODE_RANK",
    "SLURM_STEP_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "TPU_WORKER_HOSTNAMES",
    "KUBERNETES_SERVICE_HOST",
    "POD_NAME",
    "HOSTNAME",
    "JOB_COMPLETION_INDEX",
    "NUM_PODS",
    "REPLICAS",
    "SUBDOMAIN",
    "RAY_ADDRESS",
]
WORDS = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "4",
        "node[01-04]",
        "node[1-999999999]",
        "a,b,c",
        "2(x2)",
        "9(x999999999)",
        "4(x99999999999999999999)",
        "127.0.0.1",
        "host:29500",
        "[::1]:1",
        "bert-0",
        "bert-worker-3",
        "x" * 300,
        "99999999",
        "1000000",
    ]
)


@target(
    st.dictionaries(st.sampled_from(NAMES), WORDS | TEXTS | NUMBERS.map(lambda number: str(number)[:300]), max_size=12),
    examples=200,
)
def test_variables_of_launchers(env: dict[str, str]) -> None:
    cluster.all_said(env)
    nodes_named(env)
    found = cluster.understand(env)
    assert found is None or len(found.tasks) <= 1_000_000
    member(env, ["train.py", "--local-rank", "3"])


ENTRY: Any = {
    "name": "x",
    "pattern": r"boom (?P<code>\d+) on rank (?P<rank>\d+)",
    "cause": "user.code_exception",
    "title": "boom {code}",
    "because": "b",
    "fix": "f",
    "command": "c {code}",
    "severity": "fatal",
}


@target((damaged({"signature": [ENTRY, ENTRY]}) | VALUES).filter(lambda value: isinstance(value, dict)), examples=80)
def test_signatures_of_users(document: Any) -> None:
    child = SearchChild()
    for each in read_signatures(document, set(), child):
        if not isinstance(each, str):
            each.signature.read("boom 1²3 on rank ² 99999999")
    child.end()
