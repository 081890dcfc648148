# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are damaged, slow, or belong to another model."""

from __future__ import annotations

from pathlib import Path

from tests.rules.explained import causes, findings

STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

TRUNCATED = """\
Traceback (most recent call last):
  File "/srv/train.py", line 60, in main
    first = load(model, options.resume)
  File "/srv/train.py", line 114, in load
    state = torch.load(path, weights_only=True)
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 807, in __init__
    super().__init__(torch._C.PyTorchFileReader(name_or_buffer))
OSError: [Errno 22] Invalid argument
"""


def test_a_damaged_file_is_known_by_the_reader_that_failed(tmp_path):
    root = findings(tmp_path, rank0=TRUNCATED)[0]
    assert root.cause.value == "checkpoint.corrupt_or_missing"


ORIGINAL = """\
InvalidArgumentError: Restoring from checkpoint failed. This is most likely due to a mismatch between the current \
graph and the graph from the checkpoint. Original error:

Unsuccessful TensorSliceReader constructor: Failed to get matching files on gs://b/model.ckpt-52: Permission denied
"""


def test_the_original_error_counts_more_than_what_tensorflow_supposes(tmp_path):
    assert causes(tmp_path, rank0=ORIGINAL)[0] == "checkpoint.corrupt_or_missing"


def test_a_checkpoint_that_ends_early_is_not_taken_for_the_end_of_the_input(tmp_path):
    text = "OutOfRangeError: Read less bytes than requested\n\t [[{{node checkpoint_initializer_133}}]]\n"
    assert causes(tmp_path, rank0=text)[0] == "checkpoint.corrupt_or_missing"


def test_the_same_error_of_another_file_is_an_exception_of_the_program(tmp_path):
    text = TRUNCATED.replace("/opt/venv/lib/python3.11/site-packages/torch/serialization.py", "/srv/reader.py")
    assert causes(tmp_path, rank0=text)[0] == "user.code_exception"


def test_other_names_and_shapes_are_told(tmp_path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 114, in load\n    model.load_state_dict(state)\n'
        "RuntimeError: Error(s) in loading state_dict for Net:\n"
        "\tsize mismatch for fc.weight: copying a param with shape torch.Size([10]) from checkpoint, "
        "the shape is torch.Size([9]).\n"
    )
    assert causes(tmp_path, rank0=text)[0] == "checkpoint.mismatch_keys_shapes"


def test_a_lenient_loader_that_trains_on_gives_nothing(tmp_path):
    text = "size mismatch for fc.weight: copying a param with shape torch.Size([10]) from checkpoint\n" + STEPS
    assert findings(tmp_path, rank0=text) == ()


def test_a_wait_that_ran_out_while_saving_blames_the_one_who_saved(tmp_path):
    text = (
        "INFO:torchtune.utils._logging:Saving checkpoint. This may take some time. "
        "Retrieving full model state dict...\n"
        "[rank4]:[E1129 09:26:57.536129071 ProcessGroupNCCL.cpp:616] [Rank 4] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=27310, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        "ran for 600183 milliseconds before "
        "timing out.\n"
    )
    root = findings(tmp_path, log=text)[0]
    assert (root.cause.value, root.ranks) == ("checkpoint.slow_io_timeout", (0,))


def test_a_wait_inside_the_gathering_of_a_save_is_no_slow_disk(tmp_path):
    text = (
        "INFO:accelerate.accelerator:Saving FSDP model\n"
        "[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=16207, "
        "OpType=ALLGATHER, Timeout(ms)=4800000) ran for 4803252 milliseconds before timing out.\n"
    )
    assert "checkpoint.slow_io_timeout" not in causes(tmp_path, log=text)


LACKING = """\
Traceback (most recent call last): (RANK 3)
  File "/opt/venv/lib/python3.9/site-packages/torch/distributed/_shard/checkpoint/default_planner.py", \
line 131, in create_default_local_load_plan
    md = metadata.state_dict_metadata[fqn]
KeyError: 'pos_embedding'
"""


def test_a_name_that_a_loader_does_not_find_is_a_checkpoint_of_another_model(tmp_path):
    root = findings(tmp_path, all=LACKING)[0]
    assert (root.cause.value, root.ranks) == ("checkpoint.mismatch_keys_shapes", (3,))


def test_a_name_that_anybody_else_does_not_find_is_the_programs_affair(tmp_path):
    text = LACKING.replace("torch/distributed/_shard/checkpoint/default_planner.py", "mine/plan.py")
    assert causes(tmp_path, all=text)[0] == "user.code_exception"


UNPICKLED = """\
Traceback (most recent call last):
  File "/srv/train.py", line 60, in main
    for batch in loader:
  File "/opt/venv/lib/python3.11/site-packages/torch/_utils.py", line 706, in reraise
    raise exception
_pickle.UnpicklingError: Caught UnpicklingError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/srv/data.py", line 9, in __getitem__
    return pickle.load(open(self.files[n], "rb"))
_pickle.UnpicklingError: pickle data was truncated
"""
FROM_A_RANK = """\
Traceback (most recent call last):
  File "/srv/util/misc.py", line 125, in all_gather
    data_list.append(pickle.loads(buffer))
_pickle.UnpicklingError: invalid load key, '\\x00'.
"""


def test_what_a_loader_of_the_input_cannot_unpickle_is_input(tmp_path):
    assert causes(tmp_path, rank0=UNPICKLED)[0] == "data.corrupt_or_truncated"


def test_what_came_from_another_rank_and_cannot_be_unpickled_shows_ranks_out_of_step(tmp_path):
    found = causes(tmp_path, rank0=FROM_A_RANK)
    assert found[0] == "sync.collective_mismatch"
    assert "checkpoint.corrupt_or_missing" not in found[:1]


WEIGHTS = """\
Traceback (most recent call last):
  File "/srv/train.py", line 186, in main
    model.load_weights(options.resume)
  File "/opt/venv/lib/python3.7/site-packages/keras/engine/training.py", line 2354, in load_weights
    with h5py.File(filepath, 'r') as f:
  File "/opt/venv/lib/python3.7/site-packages/h5py/_hl/files.py", line 190, in make_fid
    fid = h5f.open(name, flags, fapl=fapl)
OSError: Unable to open file (file signature not found)
"""


def test_a_file_that_keras_loads_weights_from_is_a_checkpoint(tmp_path):
    assert causes(tmp_path, all=WEIGHTS)[0] == "checkpoint.corrupt_or_missing"


def test_the_same_file_read_by_another_is_data(tmp_path):
    text = WEIGHTS.replace("keras/engine/training.py", "mine/data.py").replace("in load_weights", "in samples")
    assert causes(tmp_path, all=text)[0] == "data.corrupt_or_truncated"


SPAWNED = """\
torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL
Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "/opt/venv/lib/python3.8/multiprocessing/spawn.py", line 116, in spawn_main
    exitcode = _main(fd, parent_sentinel)
  File "/opt/venv/lib/python3.8/multiprocessing/spawn.py", line 126, in _main
    self = reduction.pickle.load(from_parent)
_pickle.UnpicklingError: pickle data was truncated
"""


def test_the_cut_off_task_of_a_spawned_process_is_no_checkpoint(tmp_path):
    root = findings(tmp_path, job=SPAWNED)[0]
    assert (root.cause.value, root.ranks) == ("resource.host_oom_killed", (1,))


def test_an_end_of_input_in_a_spawned_process_says_nothing_of_why_its_parent_ended(tmp_path):
    text = SPAWNED.replace("_pickle.UnpicklingError: pickle data was truncated", "EOFError: Ran out of input")
    assert causes(tmp_path, job=text) == ["resource.host_oom_killed"]


def test_the_same_words_of_a_file_that_a_program_reads_stay_a_checkpoint(tmp_path):
    text = TRUNCATED.replace(
        "OSError: [Errno 22] Invalid argument", "_pickle.UnpicklingError: pickle data was truncated"
    )
    assert causes(tmp_path, rank0=text)[0] == "checkpoint.corrupt_or_missing"


READ = """\
09:36:00 [rank{rank}] checkpoint INFO reading tensorstore leaves
"""
THERE = "09:55:12 [rank{rank}] checkpoint INFO finished the read, entering barrier restore\n"
MISSED = "09:58:34 watch: 7/8 processes at barrier restore, missing: task 1 local rank 1 (rank 5)\n"


def test_the_rank_that_still_reads_while_all_others_are_at_the_barrier_is_named(tmp_path):
    text = "".join(READ.format(rank=rank) for rank in range(8))
    text += "".join(THERE.format(rank=rank) for rank in range(8) if rank != 5) + MISSED * 3
    root = findings(tmp_path, log=text)[0]
    assert (root.cause.value, root.ranks) == ("checkpoint.slow_io_timeout", (5,))


def test_a_rank_that_is_missing_and_does_something_else_is_not_slow_to_read(tmp_path):
    text = "".join(READ.format(rank=rank) for rank in range(8))
    text += "09:40:00 [rank5] tokenizing 12%\n"
    text += "".join(THERE.format(rank=rank) for rank in range(8) if rank != 5) + MISSED * 3
    root = findings(tmp_path, log=text)[0]
    assert (root.cause.value, root.ranks) == ("sync.deadlock_or_hang_waiting_rank", (5,))


def test_an_optimizer_state_of_another_shape_comes_from_a_checkpoint(tmp_path: Path) -> None:
    log = """Restoring states from the checkpoint path at /ckpt/step=24720.ckpt
Traceback (most recent call last):
  File "/job/main.py", line 151, in main
    trainer.fit(model)
  File "/venv/lib/python3.10/site-packages/torch/optim/adamw.py", line 273, in _single_tensor_adamw
    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
RuntimeError: The size of tensor a (56124554) must match the size of tensor b (14031139) at non-singleton dimension 0
"""
    found = findings(tmp_path, log=log)
    assert found[0].cause.value == "checkpoint.mismatch_keys_shapes"
    without = findings(tmp_path, log=log.partition("\n")[2])
    assert without[0].cause.value == "data.shape_mismatch"
