# SPDX-License-Identifier: Apache-2.0
"""Redaction stays as good as docs/redaction.md says: planted secrets go, the rest stays, and nothing takes long."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import keepstep.base.redact as redact_module
from keepstep.base.lazy_pattern import LazyPattern
from keepstep.base.redact import MARK, redact, redacted
from keepstep.base.redaction import multi_line_secrets, named_secrets, placed_secrets, secret_values
from tests.planted_secrets import every_kind, planted, readable
from tools.attack_strings import QUICK, attacks
from tools.redaction_score import PAGE, RECORDINGS, changed_lines, page
from tools.slow_patterns import Asked, measure_all

SHARDS = 4


def test_there_are_more_than_a_hundred_kinds() -> None:
    assert len(every_kind()) >= 200


def test_redacting_twice_changes_nothing_and_lines_stay_as_many() -> None:
    wrong = []
    for family, kind in every_kind():
        text, _ = planted(family, kind)
        once = redact(text)
        if redact(once) != once or once.count("\n") != text.count("\n"):
            wrong.append((family, kind))
    assert not wrong


def test_nothing_is_redacted_in_the_recordings() -> None:
    assert len(list(RECORDINGS.rglob("*.log"))) > 600
    assert not list(changed_lines(RECORDINGS))


def test_every_planted_secret_is_redacted_and_the_page_says_so() -> None:
    """The last column of the table names the kinds that leak."""
    number = len(every_kind())
    written = page()
    assert f"| **all** | **{number}** | **{number}** | |" in written, written
    assert written == PAGE.read_text("utf-8"), "run `make docs`"


def test_no_planted_secret_gets_into_a_bundle_or_a_page_or_onto_the_terminal(tmp_path: Path) -> None:
    """Each is in a log of its own rank, before a crash and as the message of its exception."""
    logs = tmp_path / "logs"
    logs.mkdir()
    hidden: dict[str, tuple[str, ...]] = {}
    for rank, (family, kind) in enumerate(every_kind()):
        text, hidden[kind] = planted(family, kind, seed=7)
        (logs / f"rank{rank}.log").write_text(
            f'starting\n{text}\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
            f"    main()\nRuntimeError: {text}\n"
        )
    out = tmp_path / "bundle.tar.gz"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "keepstep",
            "why",
            str(logs),
            "--bundle",
            str(out),
            "--html",
            str(tmp_path / "page.html"),
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1, done.stderr
    with tarfile.open(out) as archive:
        members = {each.name: archive.extractfile(each).read().decode() for each in archive.getmembers()}  # type: ignore[union-attr]
    members |= {"page.html": (tmp_path / "page.html").read_text(), "stdout": done.stdout, "stderr": done.stderr}
    assert sum(MARK in text for text in members.values()) > 200
    pieces = {piece: kind for kind, secrets in hidden.items() for each in secrets for piece in readable(each)}
    found = {(pieces[piece], name) for name, text in members.items() for piece in readable(text) if piece in pieces}
    assert not found, sorted(found)


@pytest.mark.parametrize(
    "line",
    [
        "torch._dynamo cache key: 4f0c9be1d2a37756e8ab90c1d2e3f405 hit, "
        "cache_key=jit_train_step-8f3a9c0012ab9b2df1a0c4e37f21aa03",
        "compile_key='a81bc81b-dead-4e5d-abff-90865d1e13b1' store key: default_pg/0//cuda//timeout_dump",
        "git describe: v2.5.1-rc3-17-g9fceb02d0ae5, image registry/x@sha256:" + "e3b0c442" * 8,
        "checkpoint gs://bucket/run-7f3a9c00/ckpt-000120/shard-00003-of-00008.safetensors loaded in 3.2s",
        "s3://bucket/a/b@c/ckpt_10.pt http://node-1:8080/a@b tcp://[fd00::1]:29500",
        "PyTorch version 2.5.1+cu124; NCCL version 2.21.5+cuda12.4; driver 550.54.15",
        "CUDA_VISIBLE_DEVICES=GPU-8a1b2c3d-1111-2222-3333-444455556666 MASTER_ADDR=node-12.cluster.local "
        "MASTER_PORT=29500",
        "SLURM_JOB_ID=1234567 SLURM_STEP_NODELIST=gpu[001-128] RANK=3 LOCAL_RANK=3 WORLD_SIZE=1024 "
        "TORCHELASTIC_RUN_ID=6f1a-22b3",
        "Ray actor (RayTrainWorker pid=1234, ip=10.0.0.4, actor_id=a1b2c3d4e5f60718293a4b5c01000000)",
        "wandb: Run data is saved locally in /home/me/wandb/run-20261116_100000-8xk2f9qz, run id 8xk2f9qz",
        "wandb: View run at https://wandb.ai/team/project/runs/8xk2f9qz",
        "password is incorrect; the password was rejected, password required, wrong password, password "
        "authentication failed for user me",
        "Invalid token at position 12; next token is ' the'; token 50256 is unknown; tokens: 128; token type ids",
        '  File "/opt/app/train.py", line 12, in connect\n'
        "    connect(user=user, password=password, api_key=api_key, token=token)",
        "os.environ['HF_TOKEN'] is not set; set HF_TOKEN to a token, missing variables: ['HF_TOKEN', 'WANDB_API_KEY']",
        "mpirun -np 8 -x LD_LIBRARY_PATH --mca pml ob1 -p2p python train.py; ssh -p 2222 node; mkdir -p /tmp/x",
        "nvcc -pthread -Wall; mysqld -port 3306; docker run -p 8080:80 image; tar -p; 7z x a.7z",
        "loss 2.3e-05 grad_norm 0.123456789012345 lr 1.0000000000000001e-05 throughput 123456.789 tokens/s",
        "PRNGKey: [0 42] key<fry>[] {overlaying: [ 928981903 3453687069]} rng_key=0x1234567890abcdef",
        "_ZN3c1021throwNullDataPtrErrorEv + 0x7f3a9c0012ab (libc10.so) at ../c10/core/StorageImpl.cpp:12",
        "/nix/store/0c0bpvb1b5s0r6dzm8v2hc8ykz1p9x8l-python3-3.11.9/bin/python3: No such file",
        "2026-11-16T10:00:00.123456Z 0: INFO step=100/1000 epoch=1 key=value batch_key=x session: 0 author=me",
        "uuid 123e4567-e89b-12d3-a456-426614174000 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
        "authenticator=ldap auth=none auth_method: basic; basic block 3; Basic usage example",
        "secretName: training-ssh, secret/training created, secretRef: name: db, secrets: []",
        "passing: 12, bypass: true, pass rate: 0.98, compass: 3, first pass took 1.2s, pass 2 of 3",
        "monkey: 3, keyboard=de, keys: ['a', 'b'], donkey: x, hotkey=ctrl+c, key: layers.12.self_attn.q_proj.weight",
        "hf_hub_download(repo_id='org/model', revision='9fceb02d0ae598e95dc970b74767f19372d61af8')",
        "W1116 10:00:00.000000 140737353922368 gpu_device.cc:2344] Cannot dlopen some GPU libraries",
        "wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit:\nwandb: Run 8xk2f9qz\n"
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "wandb: commit 9fceb02d0ae598e95dc970b74767f19372d61af8, seed 0123456789abcdef0123456789abcdef01234567",
        "https://host.example.com/a@b/c@d http://node-1:8080/a@b@c s3://bucket/x:y/z tcp://10.0.0.1:29500",
        "secrets:\n- name: regcred\n- name: training-ssh\nimage: repo/image:1",
        "secrets:\n  db_password:\n    file: ./db.txt\n    external: true\nservices:\n  db:\n    image: postgres:16",
        "secrets:\n  token:\n    description: the token of the registry\n    required: true\njobs:\n  build: linux",
        "secrets:\n  db: ${DB_PASSWORD}\n  key: vault:secret/data/app#key\n  old: !vault |\nmodel: llama",
        "secrets: 3\n  loss: 1.2345\nsecrets\n  found: several words here",
        'raise ValueError("the key of this layer "\n                 "is not in the checkpoint")',
        'print("the password" + " is too short")\nname = "layer" + "norm1234567890abcdefgh" + "sk-learn"',
        'expect "$ "\nsend "ls -la /tmp\\r"\nsend "exit\\r"\nsend "$password\\r"\nsend "yes\\r"',
        'connection.send("ready1234") and socket.send("batch_17")',
        'etag: "5d41402abc4b2a76b9719d911017c592", md5=5d41402abc4b2a76b9719d911017c592, crc32c: 1a2b3c4d',
    ],
)
def test_what_logs_need_stays(line: str) -> None:
    assert redact(line) == line


def test_a_value_that_only_its_key_tells_to_be_a_secret_is_redacted() -> None:
    assert redacted({"password": "swordfish", "key": "layer.1", "rank": "3"}) == {
        "password": MARK,
        "key": "layer.1",
        "rank": "3",
    }


def test_lines_without_a_secret_keep_their_colours() -> None:
    text = "\x1b[31mred\x1b[0m\npassword=\x1b[1mx1y2z3w4\x1b[0m\n\x1b[32mgreen\x1b[0m"
    assert redact(text) == f"\x1b[31mred\x1b[0m\npassword={MARK}\n\x1b[32mgreen\x1b[0m"


def patterns() -> list[Asked]:
    rows = [pattern for row in redact_module._ROWS for pattern in (row.pattern, row.gate) if pattern is not None]
    single = [
        each
        for module in (redact_module, named_secrets, placed_secrets, multi_line_secrets, secret_values)
        for each in vars(module).values()
        if isinstance(each, LazyPattern)
    ]
    return [
        Asked("redaction", each.pattern, each._flags) for each in {id(each): each for each in (*rows, *single)}.values()
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_pattern_of_redaction_is_slow(shard: int) -> None:
    every = patterns()
    assert len(every) > 120
    slow = [each for each in measure_all(every[shard::SHARDS], QUICK) if each.seconds > 0.25]
    assert not slow, "\n".join(
        f"{each.seconds * 1000:.0f} ms: {each.asked.pattern!r} on {each.text[:80]!r}" for each in slow
    )


def test_no_text_made_against_one_pattern_is_slow_in_all_of_redaction() -> None:
    """The patterns together, on 16 kB: each text is made from one of them."""
    slow = []
    for asked in patterns():
        text = next(attacks(asked.pattern, asked.flags, 16 << 10, QUICK), "")
        began = time.thread_time()
        redact(text)
        if (took := time.thread_time() - began) > 1.0:
            slow.append((took, asked.pattern, text[:80]))
    assert not slow, slow


def test_secrets_of_several_lines_in_one_element_leave_as_many_lines() -> None:
    text = "\x1b[1m<password>\nabc1\ndef2\n</password>\x1b[0m\nnext"
    clean = redact(text)
    assert (
        clean.count("\n") == text.count("\n")
        and "abc1" not in clean
        and "def2" not in clean
        and clean.endswith("\nnext")
    )


def test_two_secrets_that_stand_close_are_both_redacted() -> None:
    assert redact("zip -r -P z0jtY0sUMA a.zip zip -r -P 8tMn185zeR b.zip").count(MARK) == 2
