# SPDX-License-Identifier: Apache-2.0
"""`keepstep check gpu`: known answers, counters, and whole runs with the CPU as the device and faults from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keepstep.base.proc_stat import family, read_stat, with_descendants
from keepstep.check.gpu.children import Child, attend
from keepstep.check.gpu.host_errors import host_errors
from keepstep.check.gpu.host_memory import PIECE
from keepstep.check.gpu.known_answers import EXACT, PASS, WORD_BITS, known, patterns
from keepstep.check.gpu.look import GpuCheck, GpuRequest, GpuUnderTest
from keepstep.model.facts.host import DevicesUnlike, HostErrors
from keepstep.sources.host import nvidia
from tests.check.conftest import until

HERE = Path(__file__).parent


@pytest.mark.parametrize("dtype", EXACT)
def test_a_product_is_what_multiplying_every_pair_gives(dtype: str) -> None:
    rows, size = known(dtype, 16, seed=3), 16
    for i in range(size):
        for j in range(size):
            pairs = (rows.left[(i + k) % size] * rows.right[(k - j) % size] for k in range(size))
            assert rows.product[(i + j) % size] == sum(pairs)


def test_a_pass_has_every_bit_alone_at_one_and_at_zero() -> None:
    values = {each.of_piece(0) & 0xFFFFFFFF for n in range(PASS) for each in patterns(n) if not each.address}
    assert values == {word for bit in range(WORD_BITS) for word in (1 << bit, 0xFFFFFFFF ^ (1 << bit))}


def test_the_host_s_counters_are_read_per_module(tmp_path: Path) -> None:
    for name, corrected, uncorrected in (("dimm0", 5, 0), ("dimm1", 0, 2)):
        folder = tmp_path / "mc" / "mc0" / name
        folder.mkdir(parents=True)
        (folder / "dimm_ce_count").write_text(f"{corrected}\n")
        (folder / "dimm_ue_count").write_text(f"{uncorrected}\n")
        (folder / "dimm_label").write_text(f"DIMM_{name[-1]}\n")
    (tmp_path / "mc" / "mc0" / "ce_count").write_text("5\n")
    (tmp_path / "mc" / "mc0" / "ue_count").write_text("2\n")
    (tmp_path / "interrupts").write_text(" TRM:  0  0  Thermal\n MCE:  1  2  Machine check exceptions\n")
    with sqlite3.connect(tmp_path / "ras.db") as made:
        made.execute("CREATE TABLE mc_event (err_type TEXT, err_count INTEGER)")
        made.execute("INSERT INTO mc_event VALUES ('Corrected', 7), ('Fatal', 1)")
    assert host_errors(tmp_path / "mc", tmp_path / "interrupts", tmp_path / "ras.db") == [
        HostErrors(where="memory module DIMM_0 (mc0), since boot", corrected=5),
        HostErrors(where="memory module DIMM_1 (mc0), since boot", uncorrected=2),
        HostErrors(where="machine-check exceptions since boot", uncorrected=3),
        HostErrors(where="memory errors recorded by rasdaemon", corrected=7, uncorrected=1),
    ]


def test_a_machine_that_counts_nothing_has_no_counters(tmp_path: Path) -> None:
    (tmp_path / "ras.db").write_bytes(b"not a database")
    assert host_errors(tmp_path / "mc", tmp_path / "interrupts", tmp_path / "ras.db") == []


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi that knows one hot GPU, by the older names of its fields."""
    tool = tmp_path / "nvidia-smi"
    row = "0, GPU-abc, 91, 4, [N/A], Not Active, Active, Not Active, Not Active"
    tool.write_text(f'#!/bin/sh\ncase "$1" in *clocks_event*) exit 2;; *) echo "{row}";; esac\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tool


def test_the_driver_s_readings_are_understood(driver: Path) -> None:
    assert nvidia.readings() == [
        nvidia.Reading(index=0, uuid="GPU-abc", celsius=91, corrected=4, slowed="a hardware slowdown because of heat")
    ]


def test_a_gpu_that_is_too_hot_is_left_alone(driver: Path) -> None:
    gpu = GpuUnderTest("GPU 0", {"with": "host", "bytes": 64 * PIECE})
    assert attend([gpu], lambda: GpuCheck(GpuRequest(hottest=85)).temperatures([gpu]))
    assert gpu.ended_because == "it was stopped at 91 °C"
    assert gpu.hottest == 91


def test_a_child_that_is_killed_is_not_called_healthy() -> None:
    child = Child("host memory", {"with": "host", "bytes": 64 * PIECE})

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):  # it is noticed a moment later
            os.kill(child.pid, signal.SIGKILL)

    attend([child], kill)
    assert child.ended_because == "its process ended with signal SIGKILL"


def test_the_device_with_other_bits_is_the_odd_one() -> None:
    gpus = [GpuUnderTest(f"GPU {n}", {}) for n in range(3)]
    for gpu, digest in zip(gpus, ("a", "b", "a"), strict=True):
        gpu.said = {"device": {"kind": "NVIDIA X"}, "bits": {"digest": digest}}
    check = GpuCheck(GpuRequest())
    check.compare(gpus)
    assert [each.fact for each in check.looked.evidence] == [
        DevicesUnlike(kind="NVIDIA X", odd=("GPU 1",), others=("GPU 0", "GPU 2"))
    ]
    check = GpuCheck(GpuRequest())
    check.compare(gpus[:2])
    assert [each.fact for each in check.looked.evidence] == [
        DevicesUnlike(kind="NVIDIA X", odd=("GPU 0", "GPU 1"), others=())
    ]


def check_gpu(*words: str, fault: str = "") -> tuple[int, dict[str, Any]]:
    """The verb as a user calls it; ``fault`` names a folder whose sitecustomize breaks the child from outside."""
    env = {**os.environ, "GPU_FAULT": fault}
    if fault:
        env["PYTHONPATH"] = os.pathsep.join([str(HERE / "gpu_faults"), *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "check", "gpu", "--json", *words], env=env, capture_output=True, text=True
    )
    return done.returncode, json.loads(done.stdout)


def test_a_bit_that_host_memory_loses_is_found() -> None:
    status, report = check_gpu("--with", "torch", "--device", "cuda", "--host-memory", "0.04", fault="host")
    assert status == 1
    assert [each["rule"] for each in report["findings"]] == ["HWD106"]
    assert "byte 4,096 of 33,554,432" in report["findings"][0]["evidence"][0]["quote"]


def children(pid: int) -> set[int]:
    return family(with_descendants([pid]), [pid]) - {pid}


def test_ctrl_c_ends_the_children() -> None:
    command = [sys.executable, "-m", "keepstep", "check", "gpu", "--minutes", "30", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(children(process.pid)) > 0)
        started = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    assert "interrupted" in said and "Traceback" not in said
    until(lambda: not any(entry.lives for pid in started if (entry := read_stat(pid))))


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_device_that_is_well_passes(framework: str) -> None:
    words = ("--with", framework, "--device", "cpu", "--minutes", "0.001", "--host-memory", "0.02")
    status, report = check_gpu(*words)
    assert (status, report["findings"]) == (0, []), report
    looked = " ".join(each["what"] for each in report["coverage"])
    assert "float32, bfloat16, float16, int8" in looked and "72 patterns" in looked


@pytest.mark.frameworks
def test_wrong_products_and_memory_are_named() -> None:
    words = ("--with", "torch", "--device", "cpu", "--minutes", "0.001", "--host-memory", "0")
    status, report = check_gpu(*words, fault="torch")
    assert status == 1
    titles = [each["title"] for each in report["findings"]]
    assert [each["rule"] for each in report["findings"]] == ["HWD104"] * 3
    assert any("multiplies wrongly in bfloat16: " in title for title in titles), titles
    assert any("does not keep what is written to its memory" in title for title in titles), titles
    assert any("gives other bits" in title for title in titles), titles
    quotes = " ".join(each["evidence"][0]["quote"] for each in report["findings"])
    assert "row 3, column 5" in quotes and "instead of 0x" in quotes


@pytest.mark.frameworks
def test_without_a_gpu_it_says_so() -> None:
    status, report = check_gpu("--with", "torch")
    assert status == 3 and report["verdict"] == "unknown"  # though the host's memory is well
    assert any("torch sees no CUDA device" in str(each.get("why")) for each in report["coverage"])
