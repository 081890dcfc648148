# SPDX-License-Identifier: Apache-2.0
"""Exceptions that no signature matches, but whose subject is clear from the wording."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.facts.process import ExceptionRaised, Frame
from keepstep.model.finding import Confidence
from keepstep.rules.last_resort.words import ErrorSubject, speaks_of

LIBRARY = (Frame(function="check", file="/opt/venv/lib/python3.11/site-packages/megatron/core/check.py", line=3),)
PROGRAM = (Frame(function="check", file="/ws/train.py", line=3),)


@pytest.mark.parametrize(
    ("kind", "message", "subject"),
    [
        (
            "RuntimeError",
            "grad_output[0] has shape (8, 4096), which does not match output[0] of (5, 4096)",
            ErrorSubject.SHAPE,
        ),
        ("AssertionError", "the input length 512 must be equal to the target length 500", ErrorSubject.SHAPE),
        ("RuntimeError", "Tensor 3 has wrong input shape (8, 2)", ErrorSubject.SHAPE),
        ("RuntimeError", "Tensor 3 has invalid shape [8, 2], but expected [8, 4]", ErrorSubject.SHAPE),
        ("ValueError", "Invalid reduction dimension 0 for input with 0 dimensions", None),
        ("ValueError", "all parameters must have the same dtype, one of them is in bf16", ErrorSubject.DTYPE),
        (
            "AssertionError",
            "Number of unpadded elements must be same, but differ in the checkpoint: expected 4 but got 5",
            ErrorSubject.CHECKPOINT,
        ),
        (
            "CheckpointingException",
            "Unexpected keys: ('decoder.final_norm.weight',) in the loaded tensors",
            ErrorSubject.CHECKPOINT,
        ),
        (
            "AssertionError",
            "overlapping the gather of parameters is not supported with this optimizer",
            ErrorSubject.REFUSAL,
        ),
        ("RuntimeError", "broadcast isn't implemented on backend [xpu]", ErrorSubject.REFUSAL),
        ("AssertionError", "world size 6 does not match the mesh shape (2, 2)", None),
        ("TypeError", "'<' not supported between instances of 'str' and 'int'", None),
        ("KeyError", "'shape mismatch'", None),
        ("ValueError", "could not convert string to float: 'a'", None),
        ("ValueError", "None values not supported.", None),
        (
            "ValueError",
            "the initial shape (3,) is not compatible with the explicitly supplied shape (4,)",
            ErrorSubject.SHAPE,
        ),
        ("ValueError", 'Expected a name, got Tensor("x:0", shape=(32, 10), dtype=float32).', None),
        ("ValueError", "Expected all to be array-like. Received: <tf.Tensor 'x:0' shape=(32, 10) dtype=float32>", None),
        (
            "TypeError",
            'Expected TensorSpec(shape=(2,), dtype=tf.int32), got Tensor("x:0", shape=(3,), dtype=int32)',
            ErrorSubject.SHAPE,
        ),
    ],
)
def test_the_subject_is_told_by_the_words(kind, message, subject):
    assert speaks_of(ExceptionRaised(type=kind, message=message, frames=LIBRARY)) is subject


def test_what_the_program_itself_does_not_support_is_the_programs_affair():
    raised = ExceptionRaised(type="NotImplementedError", message="this loss is not implemented", frames=PROGRAM)
    assert speaks_of(raised) is None


def causes(folder: Path, text: str) -> list[str]:
    (folder / "rank0.log").write_text(text)
    return [found.cause.value for found in explain_paths([folder]).report.findings]


TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/ws/train.py", line 9, in <module>\n    step()\n'
    '  File "/opt/venv/lib/python3.11/site-packages/deepspeed/runtime/pipe/engine.py", line 735, in step\n    go()\n'
)


def test_one_exception_is_told_once(tmp_path):
    assert causes(tmp_path, TRACE + "RuntimeError: the shape of the gradient does not match that of the output\n") == [
        "data.shape_mismatch"
    ]


def test_an_exception_without_a_subject_stays_the_programs(tmp_path):
    assert causes(tmp_path, TRACE + "RuntimeError: the moon is full\n") == ["user.code_exception"]


def test_what_a_framework_asserts_of_itself_is_a_combination_it_did_not_foresee(tmp_path):
    assert causes(tmp_path, TRACE + "AssertionError\n") == ["framework.unsupported_combination"]


def test_what_a_configuration_lacks_is_no_combination(tmp_path):
    trace = TRACE.replace("runtime/pipe/engine.py", "runtime/config.py")
    said = "AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided\n"
    assert causes(tmp_path, trace + said) == ["user.code_exception"]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("the shapes (8, 4) and (5, 4) do not match", "data.shape_mismatch"),
        ("the dtypes float32 and bfloat16 must match", "data.dtype_mismatch"),
        ("the checkpoint lacks parameters: missing keys ['a', 'b'] in state_dict", "checkpoint.mismatch_keys_shapes"),
        ("flux is not supported with frobs", "framework.unsupported_combination"),
    ],
)
def test_the_same_words_get_the_same_grade_whoever_reads_them(tmp_path, message, cause):
    (tmp_path / "raised").mkdir()
    (tmp_path / "said").mkdir()
    (tmp_path / "raised" / "rank0.log").write_text(f"{TRACE}RuntimeError: {message}\n")
    (tmp_path / "said" / "rank0.log").write_text(f"starting\nERROR frob: {message}\n")
    roots = [explain_paths([tmp_path / name]).report.findings[0] for name in ("raised", "said")]
    assert [(each.cause.value, each.confidence) for each in roots] == [(cause, Confidence.HYPOTHESIS)] * 2
    assert roots[0].rule != roots[1].rule
