# SPDX-License-Identifier: Apache-2.0
"""Errors that no signature matches: never called healthy, and named by their wording where it is clear."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.knowledge import read_table
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised, Loudness
from keepstep.model.finding import Confidence, Found, Standing
from keepstep.model.report import Report, Verdict
from keepstep.rules.last_resort.naming import named_by, named_in
from keepstep.rules.last_resort.table import table

STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


def report(folder: Path, **logs: str) -> Report:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report


@pytest.mark.parametrize(
    "text",
    [
        "E0115 19:13:45.133721 8 frobnicator.cc:197] the frobnicator gave up on shard 3\n",
        "ERROR frobnicator: the flux went below its floor\n",
        STEPS + "CRITICAL flux lost\n",
        "loading\nfrob: fatal: the flux is gone\n",
        "error: flux capacitor reports state 7\n",
    ],
)
def test_a_log_that_ends_in_an_error_is_never_healthy(tmp_path, text):
    told = report(tmp_path, log=text)
    assert told.verdict is Verdict.FAILED
    root = told.findings[0]
    assert (root.rule, root.cause, root.confidence) == ("UNK001", Cause.UNKNOWN_NOT_ESTABLISHED, Confidence.HYPOTHESIS)
    assert root.evidence[0].quote in text


def test_the_rank_whose_output_ends_in_the_error_is_named(tmp_path):
    told = report(tmp_path, rank0=STEPS, rank1=STEPS + "ERROR frobnicator: the flux went below its floor\n")
    assert told.findings[0].ranks == (1,)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("frob: error: cudaMallocFoo failed: out of memory on gpu 3\n", "resource.gpu_oom"),
        ("ERROR frob: ibv_frob_qp returned 12, the queue pair is in state ERR\n", "network.rdma_ib"),
        ("E0115 19:13:45.1 8 x.cc:1] flux driver: no space left for the frob file\n", "resource.disk_full"),
        ("frob: error: GLIBC_2.99 is wanted by libflux\n", "env.abi_or_cpu_instruction"),
        ("ERROR frob: flux is not yet supported together with frobs\n", "framework.unsupported_combination"),
    ],
)
def test_words_of_unknown_errors_name_a_cause_as_a_guess(tmp_path, text, cause):
    root = report(tmp_path, log="starting\n" + text).findings[0]
    assert (root.cause.value, root.confidence, root.standing) == (cause, Confidence.HYPOTHESIS, Standing.GUESS)
    assert "suggests" in root.because and '"' in root.because


@pytest.mark.parametrize(
    "text",
    [
        STEPS + "ERROR uploader: could not send metrics, will retry\n" + STEPS,
        "ERROR plugin: the flux is gone\n" + STEPS,
        STEPS + "training finished\nERROR logger: the pipe is gone\n",
        STEPS + "WARNING: could not find the flux file\n",
        "INFO a\nINFO b\nINFO c\nINFO d\nINFO e\nWARNING could not load the optional frob\n",
        "0 errors\nall 3 tests without failures\n",
        STEPS + "validation error 0.25\n",
    ],
)
def test_what_a_healthy_run_says_stays_without_a_finding(tmp_path, text):
    assert report(tmp_path, log=text).findings == ()


def test_progress_of_other_ranks_after_an_error_shows_that_it_ended_nothing(tmp_path):
    text = "[1]<stderr>:ERROR frob: flux low\n" + "".join(f"[0]<stdout>:step {n} loss 0.{n}\n" for n in range(5))
    assert report(tmp_path, log=text).findings == ()


def exception(kind: str, message: str, file: str = "/opt/env/lib/python3.10/site-packages/frob/core.py") -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 3, in go\n    frob()\n{kind}: {message}\n'


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("frob.FrobError", "the gpu ran out of memory: out of memory on device 3", "resource.gpu_oom"),
        ("RuntimeError", "frob: the flux reached RLIMIT_NPROC", "resource.fd_or_process_limit"),
        ("OSError", "flux quota exceeded for /out/frob", "resource.disk_full"),
        ("frob.FluxError", "uncorrectable ECC error on flux unit 3", "hardware.gpu_fault_xid_ecc"),
    ],
)
def test_an_exception_of_a_library_is_named_by_its_words(tmp_path, kind, message, cause):
    root = report(tmp_path, log=exception(kind, message)).findings[0]
    assert (root.cause.value, root.confidence) == (cause, Confidence.HYPOTHESIS)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("KeyError", "'checkpoint'"),
        ("TypeError", "go() got an unexpected keyword argument 'flux'"),
        ("AttributeError", "module 'frob' has no attribute 'out_of_memory'"),
        ("IndexError", "list index out of range"),
        ("ValueError", "the flux must be blue"),
    ],
)
def test_an_exception_of_the_program_stays_one(tmp_path, kind, message):
    root = report(tmp_path, log=exception(kind, message, "/home/me/train.py")).findings[0]
    assert root.cause is Cause.USER_CODE_EXCEPTION


def test_words_of_two_causes_name_none():
    assert named_by([(1.0, "no space left, and too many open files")]) is None


def test_what_follows_from_failures_is_not_named_beside_a_cause():
    named = named_by([(1.0, "connection reset by peer"), (1.0, "ibv_poll_cq failed")])
    assert named is not None and named.cause is Cause.NETWORK_RDMA_IB


def test_a_named_cause_quotes_its_words():
    named = named_in(ExceptionRaised(type="OSError", message="write failed: No space left on device"))
    assert named is not None and named.words == ("No space left",)


def test_each_cause_has_one_row_in_a_table_and_a_name():
    rows = read_table("last_resort")["row"]
    for of_tensorflow in (True, False):
        causes = [row["cause"] for row in rows if (row["of"] == "tensorflow") is of_tensorflow]
        assert len(causes) == len(set(causes))
    causes = [row.cause for row in table()]
    assert all(row.name and row.words for row in table())
    assert Cause.UNKNOWN_NOT_ESTABLISHED not in causes


def test_only_a_hypothesis_may_name_another_cause_than_its_rules():
    said = Evidence(fact=ErrorSaid(text="x", loudness=Loudness.ERROR), origin=Origin(source="a", line=1))
    with pytest.raises(ValueError, match="hypothesis"):
        Found(title="t", because="b", evidence=(said,), cause=Cause.NETWORK_DNS)
    assert Found(
        title="t", because="b", evidence=(said,), cause=Cause.NETWORK_DNS, confidence=Confidence.HYPOTHESIS
    ).cause


@pytest.mark.parametrize(
    "message",
    [
        "tensor model parallel group is not initialized",
        (
            "`ModelCheckpoint(monitor='val_loss')` could not find the monitored key in the returned metrics: "
            "['epoch', 'step']"
        ),
        "This should be unreachable.",
        "unreachable code",
        "b matrix must have rank >= 1, got shape ()",
        "expected rank of group_sizes to be >=1.",
        "Preemption sync manager has not been initialized.",
        "the leaves have a different number of leading dimensions: 4 and 3",
    ],
)
def test_words_in_passing_name_nothing(message):
    assert named_in(ExceptionRaised(type="AssertionError", message=message)) is None
