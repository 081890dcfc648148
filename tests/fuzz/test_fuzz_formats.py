# SPDX-License-Identifier: Apache-2.0
"""Readers of other people's formats: flight recorders, cores, packed files, checkpoints, what tools answer."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib.util
import io
import json
import lzma
import pickle
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from keepstep.base import foreign_json
from keepstep.check.meeting import connection
from keepstep.check.meeting.packing import unpacked
from keepstep.errors import Unavailable
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.parse.formats import elf_core, flight_recorder, gdb_text, proc_net_tcp
from keepstep.parse.formats.tensor_bundle import bytes_of_shards
from keepstep.parse.scan.lines.writer import identify
from keepstep.parse.settings.packages import packages_asked
from keepstep.parse.settings.recognise import SUFFIXES, facts_of
from keepstep.rules import code_rules
from keepstep.sources.files import unpack
from keepstep.sources.host import kernel_log
from keepstep.sources.schedulers.kubernetes_job import read_kubernetes_job
from keepstep.sources.schedulers.scheduler_answer import Answer
from keepstep.sources.schedulers.slurm_job import read_slurm_job
from keepstep.sources.stacks import process_stacks
from keepstep.sources.stacks.cores import read_core
from keepstep.store.ledger.format_check import is_whole
from keepstep.story.engine import diagnose
from tests.fuzz.fuzzing import NUMBERS, TEXTS, VALUES, as_json, damaged, target, torn
from tests.parse.test_elf_core import core

DATA = Path(__file__).parents[1]
DUMP = (DATA / "data" / "flight_recorder" / "behind" / "comm_lib_trace_rank_0").read_bytes()
DUMP_JSON = (DATA / "data" / "flight_recorder" / "behind.json").read_bytes()


@target(
    st.binary()
    | TEXTS.map(lambda text: text.encode(errors="surrogatepass"))
    | VALUES.map(lambda value: as_json(value).encode(errors="replace")),
    examples=150,
)
def test_foreign_json(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        found = foreign_json.loads(data)
        json.dumps(found, allow_nan=False).encode()
        as_json(found).encode()


OPCODES = st.sampled_from([bytes([n]) for n in b"(})]tlderas.0N\x88\x89\x85\x86\x87\x94"]) | st.sampled_from(
    [
        b"q\x00",
        b"h\x00",
        b"q\x01",
        b"h\x01",
        b"K\x01",
        b"M\x00\x01",
        b"J\xff\xff\xff\xff",
        b"G" + struct.pack(">d", float("nan")),
        b"X\x01\x00\x00\x00a",
        b"\x8c\x07entries",
        b"X\xff\xff\xff\xff",
        b"\x8a\xff" + b"\x7f" * 255,
        b"cos\nsystem\n",
        b"R",
        b"\x95" + bytes(8),
    ]
)


@target(
    st.binary().map(lambda data: b"\x80\x02" + data)
    | st.lists(OPCODES, max_size=60).map(lambda ops: b"\x80\x02" + b"".join(ops) + b".")
    | torn(DUMP)
    | torn(DUMP_JSON)
    | damaged(json.loads(DUMP_JSON)).map(lambda found: as_json(found).encode(errors="replace")),
    examples=120,
)
def test_flight_recorder(data: bytes) -> None:
    flight_recorder.looks_like_dump("nccl_trace_rank_0", data[:65536])
    with contextlib.suppress(flight_recorder.NotADump):
        for fact in flight_recorder.read(data):
            assert len(repr(fact)) < 1_000_000


@target(damaged(pickle.loads(DUMP), most=6), examples=40)
def test_flight_recorder_with_other_values(dump: Any) -> None:
    try:
        data = pickle.dumps(dump, 2)
    except (TypeError, UnicodeError):
        return
    with contextlib.suppress(flight_recorder.NotADump):
        flight_recorder.read(data)


@target(
    st.binary().map(lambda data: b"\x7fELF\x02\x01\x01" + data)
    | torn(core())
    | torn(core(machine=183))
    | torn(core(environment=b"RANK=\xff\0TF_CONFIG=[[[\0")),
    examples=120,
)
def test_elf_core(data: bytes) -> None:
    elf_core.looks_like_core(data[:20])
    with contextlib.suppress(elf_core.NotACore):
        found = elf_core.read(data)
        found.file_at(found.counter or 0)
    with tempfile.NamedTemporaryFile(suffix=".core") as file:
        file.write(data)
        file.flush()
        for each in read_core(Path(file.name), "core.1", None)[0]:
            assert each.quote


TEXT = b"step 1 loss 0.5\n" * 300
PACKED = {"gz": gzip.compress(TEXT) * 2, "bz2": bz2.compress(TEXT) * 2, "xz": lzma.compress(TEXT) * 2}
if importlib.util.find_spec("zstandard"):
    import zstandard

    PACKED["zst"] = zstandard.compress(TEXT) * 2


@target(
    st.sampled_from(sorted(PACKED)).flatmap(
        lambda how: st.tuples(st.just(how), torn(PACKED[how]) | st.binary().map(lambda data: PACKED[how][:6] + data))
    ),
    examples=150,
)
def test_packed_files(made: tuple[str, bytes]) -> None:
    how, data = made
    with contextlib.suppress(unpack.Damaged, unpack.TooMuch):
        for chunk in unpack.unpacked(io.BytesIO(data), how, len(data)):
            assert len(chunk) <= 64 << 20


HEADER = {"__metadata__": {"format": "pt"}, "weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@target(damaged(HEADER).map(lambda found: as_json(found).encode(errors="replace")) | st.binary(), NUMBERS)
def test_heads_of_safetensors(head: bytes, length: Any) -> None:
    size = length % 2**64 if isinstance(length, int) else len(head)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        for announced in (size, len(head)):
            path.write_bytes(struct.pack("<Q", announced) + head + bytes(8))
            is_whole(path)


BUNDLE = (DATA / "data" / "tensor_bundle" / "ckpt-405.index").read_bytes()


@target(torn(BUNDLE) | st.binary(max_size=60).map(lambda data: data + BUNDLE[-48:]))
def test_indexes_of_tensorflow_s_checkpoints(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        bytes_of_shards(data)


LINE = "#1  0x00007f12 in foo (a=1) at /src/a.c:12 from /lib/libtorch.so"


@target(st.lists(TEXTS | torn(LINE.encode()).map(lambda data: data.decode(errors="replace")), max_size=30))
def test_what_gdb_prints(lines: list[str]) -> None:
    gdb_text.frames(lines, lambda address: None)


ROW = "   1: 0100007F:1F90 0100007F:C350 01 00000010:00000000 01:00000019 00000003"
ROW += "  1000        0 12345 4 0000 20 4 30 10 -1"


NOT_A_NUMBER = "sl local\n" + ROW.replace("00000010:", "0000001Z:").replace("0100007F:C350", "010012C6:C350")


@target(
    TEXTS | torn(ROW.encode()).map(lambda data: "sl local\n" + data.decode(errors="replace")), keep=[(NOT_A_NUMBER,)]
)
def test_tables_of_the_kernel(text: str) -> None:
    list(proc_net_tcp.stuck_connections(text, {12345}))


@target(
    TEXTS | torn(b"6,1234,5678901,-;NVRM: Xid (PCI:0000:01:00): 79").map(lambda data: data.decode(errors="replace"))
)
def test_records_of_the_kernel_log(record: str) -> None:
    kernel_log.parse_record(record, 1e9)


ANSWER = {
    "threads": [
        {"tid": 5, "name": "main", "gil": True, "frames": [["f", "a.py", 3, None], ["g", None, None, "libc.so"]]}
    ]
}


@target(damaged(ANSWER).map(lambda found: as_json(found).encode(errors="replace")) | st.binary())
def test_answers_of_the_child_that_reads_stacks(answer: bytes) -> None:
    process_stacks._read(answer, ["remote", "1"], 5, 7, True, "nonsense")


@target(TEXTS, keep=[("rank²",), ("nccl_trace_rank_" + "9" * 400,), ("9" * 5000,)])
def test_names_of_files(name: str) -> None:
    identify(name)
    identify(f"rank_{name}.log")
    flight_recorder.rank_of(name)
    flight_recorder.rank_of(f"nccl_trace_rank_{name}")


POD = {
    "metadata": {
        "name": "bert-0",
        "labels": {"job-name": "bert", "batch.kubernetes.io/job-completion-index": "0"},
        "annotations": {},
    },
    "spec": {
        "nodeName": "a",
        "containers": [
            {
                "name": "main",
                "env": [{"name": "RANK", "value": "0"}],
                "resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}},
                "command": ["torchrun"],
                "args": ["x"],
            }
        ],
        "initContainers": [{"name": "init"}],
    },
    "status": {
        "reason": "Evicted",
        "message": "low on resource: memory",
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "x", "message": "y"},
            {"type": "PodScheduled", "status": "False"},
        ],
        "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 1}}}],
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 1,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                "lastState": {"terminated": {"exitCode": 1, "signal": 9}},
            }
        ],
    },
}
EVENT = {"involvedObject": {"name": "bert-0"}, "lastTimestamp": "2026-01-01T00:00:00Z", "reason": "x", "message": "y"}


@target(damaged({"items": [POD]}), damaged({"items": [EVENT, EVENT]}), examples=100)
def test_answers_of_kubectl(pods: Any, events: Any) -> None:
    def ask(words: Any) -> Answer:
        if words[1] == "logs":
            return Answer(out=b"step 1\n")
        return Answer(out=as_json(events if words[2] == "events" else pods).encode(errors="replace"))

    with contextlib.suppress(Unavailable):
        for each in read_kubernetes_job("research/bert", ask).evidence:
            assert isinstance(each, Evidence)


CAPTURES = DATA / "sources" / "captures" / "slurm-22.05"
JOBS = [path.name.removesuffix(".scontrol.txt") for path in sorted(CAPTURES.glob("*.scontrol.txt"))]


@target(
    st.sampled_from(JOBS).flatmap(
        lambda name: st.tuples(
            torn((CAPTURES / f"{name}.scontrol.txt").read_bytes()), torn((CAPTURES / f"{name}.sacct.txt").read_bytes())
        )
    ),
    examples=60,
    keep=[
        (
            (
                b"JobId=1 WorkDir=/a\x00b StdOut=/%99999999999j/**x",
                b"13_0|COMPLETED|0:0|0:0||2000M|00:00:00|UNLIMITED|9999-11-15T01:48:43|x|n2|None|\x00srv/app|arr\n",
            ),
        ),
        ((b"JobId=" + b"\xff" * 300, b"13_0|COMPLETED|0:0|0:0||2000M|00:00:00|UNLIMITED|x|x|n2|None|/srv/a"),),
    ],
)
def test_answers_of_slurm(answers: tuple[bytes, bytes]) -> None:
    with contextlib.suppress(Unavailable):
        read_slurm_job("1", lambda words: Answer(out=answers[words[0] == "sacct"]))


MESSAGE = {
    "evidence": [{"fact": "PortTaken", "fields": {"port": 1}, "origin": {"source": "x"}}],
    "coverage": [{"what": "a", "state": "checked", "why": ""}],
}


@target(damaged(MESSAGE) | VALUES, examples=80)
def test_messages_of_other_processes_of_a_check(message: Any) -> None:
    with contextlib.suppress(connection.BadFrame):
        unpacked(connection._unpacked(zlib.compress(as_json(message).encode(errors="replace"))), "another host")


DEEPSPEED = b'{"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}'
MANIFEST = b"""apiVersion: batch/v1
kind: Job
metadata: {name: t}
spec:
  parallelism: 2
  template: {spec: {containers: [{name: a, command: [torchrun, --nnodes=2], env: [{name: RANK, value: "0"}]}]}}
"""
SCRIPT = b"""#SBATCH --nodes=2
N=2
ARGS=(--nnodes=$N
  --node_rank 0)
for i in 1 2; do srun torchrun ${ARGS[@]} $(date) 'x' train.py & done
"""


PACKAGES = b"""keras>=3  # new
tensorflow[and-cuda]~=2.15.0; x
dependencies = ["tensorflow<2.16"]
tensorflow = {version = "^2.16.*"}
"""


@target(torn(PACKAGES), examples=150)
def test_packages_that_a_project_asks_for(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert all(0 < line <= text.count("\n") + 1 for line, _ in packages_asked(text))


@target(st.sampled_from(SUFFIXES), torn(DEEPSPEED) | torn(MANIFEST) | torn(SCRIPT), examples=150)
def test_settings_beside_a_program(suffix: str, data: bytes) -> None:
    facts = list(facts_of(data.decode("utf-8", "replace"), suffix))
    items = tuple(Evidence(fact=fact, origin=Origin(source="a", line=line)) for line, fact in facts)
    report = diagnose(EvidenceSet(items=items), [each for each in code_rules() if each.id.startswith("COD4")])
    assert not report.crashed
