# SPDX-License-Identifier: Apache-2.0
"""Words of trouble in logs of runs that went well give nothing; the same words in runs that did not are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

STEPS = "".join(f"0: step {n} loss 0.{n}\n" for n in range(10, 20))
FINISHED = (
    '0: :::MLLOG {"event_type": "INTERVAL_END", "key": "run_stop", "value": 0.92, "metadata": {"status": "success"}}\n'
)


def causes(folder: Path, text: str) -> list[str]:
    (folder / "run.log").write_text(text)
    return [found.cause.value for found in explain_paths([folder]).report.findings]


RAISED = (
    '3: Traceback (most recent call last):\n3:   File "/w/train.py", line 9, in load\n3:     return '
    "table[key]\n3: KeyError: 'fast_path'\n"
)
WROTE_ON = "".join(f"3: using the slow path for layer {n}\n" for n in range(90))


def test_an_exception_of_a_rank_that_wrote_on_in_a_run_that_finished_gives_nothing(tmp_path):
    assert causes(tmp_path, RAISED + WROTE_ON + STEPS + FINISHED) == []


def test_an_exception_that_was_the_last_word_of_its_rank_is_told_though_another_says_that_it_finished(tmp_path):
    assert causes(tmp_path, WROTE_ON + STEPS + RAISED + FINISHED) == ["user.code_exception"]


HELPER = (
    "srun: error: node-115: task 0: Exited with exit code 1\n+ echo 'usage: sysjson.sh'\n+ set -e\n+ true\n+ "
    "mkdir -p /results\n+ ls\n"
)


def test_a_helper_that_failed_before_a_run_that_finished_gives_nothing(tmp_path):
    assert causes(tmp_path, HELPER + STEPS + FINISHED) == []


def test_a_task_that_failed_after_the_run_finished_is_told(tmp_path):
    assert causes(tmp_path, STEPS + FINISHED + HELPER) != []


TIDIED_UP = "0: Terminated\nsrun: error: node014: task 0: Exited with exit code 143\n"


@pytest.mark.parametrize(
    ("text", "expected"), [(STEPS + FINISHED + TIDIED_UP, []), (STEPS + TIDIED_UP, ["preemption.sigterm"])]
)
def test_a_process_told_to_end_counts_only_before_the_run_is_finished(tmp_path, text, expected):
    assert causes(tmp_path, text) == expected


STALLED = (
    "[2021-05-17 17:33:12.555429: W horovod/common/stall_inspector.cc:105] One or more tensors were "
    "submitted to be reduced, gathered or"
    " broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
    "Missing ranks:\n4: [allreduce.0]\n"
)


@pytest.mark.parametrize(("after", "expected"), [(FINISHED, []), ("", ["sync.deadlock_or_hang_waiting_rank"])])
def test_ranks_that_waited_and_then_finished_give_nothing(tmp_path, after, expected):
    assert causes(tmp_path, STALLED + after) == expected


AT_THE_END = (
    'Traceback (most recent call last):\n  File "/usr/lib/python3.10/multiprocessing/util.py", line 300, '
    "in _run_finalizers\n    finalizer()\n"
    '  File "/usr/lib/python3.10/multiprocessing/synchronize.py", line 87, in _cleanup\n    sem_unlink(name)\n'
    "FileNotFoundError: [Errno 2] No such file or directory\n"
)


def test_what_finalizers_raise_gives_nothing(tmp_path):
    assert causes(tmp_path, STEPS + "done\n" + AT_THE_END) == []


PROBED = (
    "40: Import of quick_gelu from megatron.core.fusions failed with: Traceback (most recent call last):\n"
    '40:   File "/workspace/NeMo/nemo/utils/import_utils.py", line 319, in safe_import_from\n40:     '
    "return getattr(module, symbol), True\n"
    "40: AttributeError: module 'megatron.core.fusions' has no attribute 'quick_gelu'\n40:\n"
)


def test_an_optional_module_that_is_not_there_gives_nothing(tmp_path):
    assert causes(tmp_path, PROBED + STEPS) == []


PLUGIN = (
    "ERROR:2026-11-19 14:40:01,123:jax._src.xla_bridge:491: Jax plugin configuration error: Exception when calling "
    "jax_plugins.xla_cuda13.initialize()\nTraceback (most recent call last):\n"
    '  File "/opt/site-packages/jax/_src/xla_bridge.py", line 489, in discover_pjrt_plugins\n'
    "    plugin_module.initialize()\n"
    "RuntimeError: jaxlib/cuda/versions_helpers.cc:135: operation cuInit(0) failed: CUDA_ERROR_NO_DEVICE\n"
)


@pytest.mark.parametrize(("after", "expected"), [(STEPS, ["warning"]), ("", ["warning"]), ("training finished\n", [])])
def test_a_plugin_of_jax_without_its_device_stops_no_run(tmp_path, after, expected):
    """It may be why the run is slow."""
    (tmp_path / "run.log").write_text(PLUGIN + after)
    assert [found.severity.value for found in explain_paths([tmp_path]).report.findings] == expected


WARNED = "Corrupt JPEG data: premature end of data segment\n"


@pytest.mark.parametrize(
    ("text", "expected"), [(STEPS + WARNED, []), (f"OSError: {WARNED}", ["data.corrupt_or_truncated"])]
)
def test_of_a_decoder_warnings_give_nothing_and_exceptions_are_told(tmp_path, text, expected):
    assert causes(tmp_path, text) == expected


TIMED = "Epoch: [2]  [{n}/4572]  eta: 0:00:28    time: {time}  data: {time}  max mem: 20523\n"


def test_steps_that_keep_time_as_a_device_does_are_not_taken_to_wait_for_data(tmp_path):
    assert causes(tmp_path, "".join(TIMED.format(n=20 * n, time=0.2533 + n % 3 / 1e4) for n in range(1, 90))) == []


def test_steps_of_many_lengths_that_wait_for_data_do(tmp_path):
    times = "".join(TIMED.format(n=20 * n, time=0.2533 + n % 7 / 50) for n in range(1, 90))
    assert causes(tmp_path, times) == ["slow.input_bound"]


ALONE = "world_size: 1\n"


@pytest.mark.parametrize(("between", "expected"), [(500, []), (2, ["config.trains_alone"])])
def test_runs_one_after_the_other_are_no_processes_that_train_alone(tmp_path, between, expected):
    assert causes(tmp_path, ALONE + "arch: vit_small\n" * between + ALONE) == expected


MET = "".join(
    f"n1:1{n}:11 [{n}] NCCL INFO comm 0x5{n} rank {n} nranks 2 cudaDev {n} busId {n}00 - Init START\n" for n in range(2)
)
CLOSED = "".join(f"n1:1{n}:11 [{n}] NCCL INFO RAS thread terminating\n" for n in range(2))


@pytest.mark.parametrize(("text", "expected"), [(MET + CLOSED, []), (MET, ["sync.deadlock_or_hang_waiting_rank"])])
def test_of_the_last_words_of_nccl_only_those_of_the_set_up_are_taken_for_a_wait(tmp_path, text, expected):
    assert causes(tmp_path, text) == expected


READ = (
    "[2025-10-22 19:52:1{n},281] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = {gb} GB, "
    "percent = 6.8%\n"
)


@pytest.mark.parametrize(("between", "expected"), [("", []), ("step={n}, loss=1.5\n", ["resource.memory_leak"])])
def test_memory_that_fills_while_all_is_set_up_is_no_leak(tmp_path, between, expected):
    assert (
        causes(tmp_path, "".join(READ.format(n=n, gb=50 + 12 * n) + between.format(n=n) for n in range(9))) == expected
    )


BOXES = "[Epoch 279][Batch {n}99], LR: 1.00E-05, Speed: 9.493 samples/sec, loss={loss}\n"


@pytest.mark.parametrize(
    ("loss", "before", "expected"), [(10.82, 0, ["numeric.plateau"]), (10.82, 400, []), (16.95, 0, [])]
)
def test_a_loss_that_stands_still_late_or_at_what_no_guess_gives_is_no_plateau(tmp_path, loss, before, expected):
    lines = "".join(BOXES.format(n=n, loss=loss - n / 1e3) for n in range(1, 15))
    assert causes(tmp_path, "person=57.1\n" * before + lines) == expected


REFUSED = "usage: train.py [-h]\ntrain.py: error: argument --name: expected one argument\n"


@pytest.mark.parametrize(
    ("after", "expected"), [("300 epochs completed in 2.995 hours.\n", []), ("", ["user.code_exception"])]
)
def test_a_start_that_failed_before_one_that_trained_to_the_end_gives_nothing(tmp_path, after, expected):
    assert causes(tmp_path, REFUSED + after) == expected


ERRORS = "".join(f"Error executing query {n}: Unexpected token\n" for n in range(30))
RESULTS = "Correct count: 1158\nWrong count: 175\nImage questions: 3318\n"


@pytest.mark.parametrize(("after", "expected"), [(RESULTS, []), ("", ["unknown.not_established"])])
def test_errors_above_the_results_have_ended_nothing(tmp_path, after, expected):
    assert causes(tmp_path, "evaluating\n" + ERRORS + after) == expected


def test_a_text_that_a_program_reads_is_none_that_it_says(tmp_path):
    read = (
        "'Methods that failed to converge were aborted, and lost data could not be recovered by any of the "
        "known algorithms for such sets'"
    )
    assert causes(tmp_path, f"env started\n[{read}\n {read}]\ncleaning done\n") == []


LOOKED = (
    "An error occurred while trying to fetch /hub/sd/unet: Error no file named "
    "diffusion_pytorch_model.safetensors found in directory /hub/sd/unet.\n"
    "Defaulting to unsafe serialization. Pass `allow_pickle=False` to raise an error instead.\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOOKED, []),
        ("OSError: Error no file named model.bin found in directory /m.\n", ["checkpoint.corrupt_or_missing"]),
    ],
)
def test_weights_that_were_found_in_another_file_are_not_missing(tmp_path, text, expected):
    assert causes(tmp_path, text) == expected


RAN_OUT = (
    "919/Unknown 1s 2ms/step - loss: 1.0546\nUserWarning: Your input ran out of data; interrupting training. "
    "Make sure that your dataset\n"
)


@pytest.mark.parametrize(("after", "expected"), [("927/927", []), ("150/500", ["data.out_of_range_end_of_sequence"])])
def test_input_that_ends_with_its_epoch_has_not_run_out(tmp_path, after, expected):
    assert causes(tmp_path, f"{RAN_OUT}  self.gen.throw(value)\n{after} - 2s 2ms/step - loss: 1.0546\n") == expected


@pytest.mark.parametrize(("end", "expected"), [(" (ignored)", []), ("", ["env.missing_shared_library"])])
def test_a_component_that_is_ignored_is_not_missed(tmp_path, end, expected):
    text = "unable to open mca_pml_pami: libpami.so.3: cannot open shared object file: No such file or directory"
    assert causes(tmp_path, f"[login3:29852] mca_base_component_repository_open: {text}{end}\n") == expected


RULER = "-" * 70 + "\n"
BOX = (
    "There is more than one active port on host 'a'.\nPorts of other networks cannot be reached by this job, "
    "and\nwill be lost.\n"
)


@pytest.mark.parametrize(("level", "expected"), [("WARNING: ", []), ("", ["network.unreachable_or_firewall"])])
def test_all_of_the_box_that_a_warning_opens_is_the_warning(tmp_path, level, expected):
    assert causes(tmp_path, f"starting\n{RULER}{level}{BOX}{RULER}") == expected


OF_THE_KERNEL = "[   25.{n}02701] hid-multitouch 0003:045E:07CD.0001: usb_submit_urb(ctrl) failed: -1\n"


def test_what_a_kernel_complains_of_by_the_way_gives_nothing(tmp_path):
    assert causes(tmp_path, "".join(OF_THE_KERNEL.format(n=n) for n in range(9))) == []


@pytest.mark.parametrize(("name", "expected"), [("pool", []), ("python3", ["framework.bug_segfault"])])
def test_a_program_of_the_desktop_that_gave_up_is_none_of_the_run(tmp_path, name, expected):
    assert (
        causes(tmp_path, f"[   85.161702] traps: {name}[2273] trap int3 ip:7fd38df61a6b sp:7fd36ad836f0 error:0\n")
        == expected
    )


@pytest.mark.parametrize(
    ("says", "expected"), [("failed to load module mdraid: ", []), ("ImportError: ", ["env.missing_shared_library"])]
)
def test_a_module_that_a_service_does_without_is_not_missed(tmp_path, says, expected):
    assert (
        causes(tmp_path, f"{says}libbd_mdraid.so.2: cannot open shared object file: No such file or directory\n")
        == expected
    )


TRAINED = "Epoch {n}/5\n80/80 - 1s 3ms/step - loss: {loss}\n"


def test_another_model_with_a_larger_loss_has_not_diverged(tmp_path):
    one, two = ("".join(TRAINED.format(n=n, loss=loss - n / 1e3) for n in range(1, 6)) for loss in (0.11, 6855.5))
    assert causes(tmp_path, one + two) == []


def test_the_same_model_with_a_larger_loss_has(tmp_path):
    text = "".join(TRAINED.format(n=n, loss=0.11 if n < 4 else 6855.5) for n in range(1, 8))
    assert causes(tmp_path, text) == ["numeric.nan_or_divergence"]


ENDED = (
    "{where}UserWarning: Your input ran out of data; interrupting training. Make sure that your dataset can "
    "generate enough\n"
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("/v/keras/src/trainers/epoch_iterator.py:151: ", []),
        ("WARNING:tensorflow:", ["data.out_of_range_end_of_sequence"]),
    ],
)
def test_input_of_unknown_length_that_ends_has_not_run_out(tmp_path, where, expected):
    assert causes(tmp_path, TRAINED.format(n=1, loss=0.3) + ENDED.format(where=where)) == expected
