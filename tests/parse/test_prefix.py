"""Who wrote a line, by every launcher's prefix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.parse.scan.lines import prefix
from keepstep.parse.scan.lines.headings import heading
from keepstep.parse.scan.lines.prefix import Prefixes
from keepstep.parse.scan.lines.writer import identify


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[rank1]: Traceback", 1, "Traceback"),
        ("[default0]:loss 1.0", None, "loss 1.0"),
        ("[trainer3]: x", None, "x"),
        ("[1,3]<stderr>:boom", 3, "boom"),
        ("[1,12]<stdout>: boom", 12, "boom"),
        ("[3]<stderr>:boom", 3, "boom"),
        ("20%|#9    | 412/2040 [4:02<15:57, 35.27s/it][rank3]:[E901 08:12:24] boom", 3, "[E901 08:12:24] boom"),
        ("[pod/bert-worker-2/pytorch] boom", 2, "boom"),
        ("[worker-1] boom", 1, "boom"),
        ("[chief-0]:     boom", 0, "boom"),
        ("[chief-0]:       boom", 0, "  boom"),
        ("[1,mpirank:7,algo-1]<stderr>:boom", 7, "boom"),
        ("(head, rank=0, pid=4711) boom", 0, "boom"),
        ("(worker1, rank=1, pid=4711, ip=10.0.0.2) boom", 1, "boom"),
        ("master-replica-0 ERROR boom", 0, "boom"),
        ("worker-replica-3 boom", 3, "boom"),
        ("E  worker-replica-3 boom", 3, "boom"),
        ("Worker 2: boom", 2, "boom"),
        ("[process 3] boom", 3, "boom"),
        ("[Host 2]: boom", 2, "boom"),
        ("(RayTrainWorker pid=4711, ip=10.0.0.2) boom", None, "boom"),
    ],
)
def test_a_strong_prefix_is_believed_anywhere(line, rank, text):
    writer, rest = Prefixes(()).split(line)
    assert (writer.rank, rest) == (rank, text)


def test_the_prefix_before_the_hit_counts_when_a_line_has_two():
    line = "[rank0]: 10%|# [rank2]: boom"
    assert Prefixes(()).split(line, upto=line.index("10%"))[0].rank == 0
    assert Prefixes(()).split(line, upto=len(line))[0].rank == 2


def test_a_label_of_srun_is_believed_where_most_lines_have_one():
    lines = ["0: a", "1: b", "0: c", "1: Traceback"]
    assert Prefixes(lines).split("1: Traceback")[0].rank == 1
    assert Prefixes(["a", "b", "c", "1: d"]).split("1: d")[0].rank is None


@pytest.mark.parametrize("shape", ["[{}] ", "{}: ", "  {}\t"])
def test_the_numbers_of_lines_are_no_ranks(shape):
    lines = [shape.format(80746 + n) + f"[rank{n % 2}]: line {n}" for n in range(6)]
    writer, text = Prefixes(lines).split(lines[3])
    assert (writer.rank, text) == (1, "line 3")
    short = [shape.format(n) + f"line {n}" for n in range(1, 14)]
    assert Prefixes(short).split(short[2])[0].rank is None


def test_ranks_that_say_the_same_in_order_are_ranks():
    lines = [f"{n}: RuntimeError: boom" for n in range(16)]
    assert Prefixes(lines).split(lines[3])[0].rank == 3


def test_a_role_named_after_the_host_tells_the_host_and_the_rank_on_it():
    lines = ["[node-3:0]:a", "[node-3:1]:b", "[node-4:0]:c", "[node-4:1]:d"]
    writer, text = Prefixes(lines).split(lines[1])
    assert (writer.node, writer.local, writer.rank, text) == ("node-3", 1, None, "b")


@pytest.mark.parametrize(
    "shape",
    [
        "[lr0p5 task {}] {}",
        "[lr0p5/task-{}] {}",
        "[task {} lr0p5] {}",
        "[bert-worker-{}]: {}",
        "[replica {}] {}",
        "[pod index {}] {}",
        "[rank {}/8] {}",
        "[Process {} of 8] {}",
        "(shard={}) {}",
        "19:15:49.020 [lr0p5 task {}] {}",
        "2026-01-01 19:15:49,020 INFO [lr0p5 task {}] {}",
        "job7/task{}: {}",
        "run_a proc {} | {}",
        "process {} | {}",
        "task_id={}: {}",
        "host-{}> {}",
    ],
)
def test_a_prefix_that_numbers_processes_is_believed_where_it_is_a_habit(shape):
    lines = [shape.format(number, f"text {n}") for n, number in enumerate((0, 1, 3, 0, 2, 1))]
    lines += ["scheduler: started", "scheduler: ended"]
    for number, line in zip((0, 1, 3), lines, strict=False):
        writer, text = Prefixes(lines).split(line)
        assert (writer.rank, text[:5]) == (number, "text ")
    assert Prefixes(lines).split(lines[-1])[0].rank is None


@pytest.mark.parametrize(
    "shape",
    [
        "[epoch {}] x",
        "[step {}] x",
        "[layer {}] x",
        "[task {}/10] x",
        "[dataloader worker {}] x",
        "[loading shard {}] x",
        "Loading shard {}: x",
        "Finished worker {} x",
        "evaluating task {}: x",
        "[process {}/2] x",
    ],
)
def test_a_number_of_something_else_is_no_rank(shape):
    lines = [shape.format(number) for number in (3, 2, 5, 4, 2)]
    assert {Prefixes(lines).split(line)[0].rank for line in lines} == {None}


def test_what_is_worked_through_in_order_is_no_rank():
    lines = [f"[glue task {number}] accuracy 0.{number}" for number in (0, 0, 1, 1, 2, 2)]
    assert {Prefixes(lines).split(line)[0].rank for line in lines} == {None}


@pytest.mark.parametrize("inner", ["[worker 3]", "[task 3]", "[process 3]", "[node-3]"])
def test_a_number_inside_the_line_of_a_rank_is_not_its_writer(inner):
    for outer in ("[rank1]: ", "[1,1]<stderr>:", "[1]<stdout>:"):
        assert Prefixes(()).split(f"{outer}{inner} boom")[0].rank == 1
    assert Prefixes(()).split("[worker 3] [rank1]: boom")[0].rank == 1


def test_two_ray_workers_are_two_streams():
    split = Prefixes(()).split
    assert split("(W pid=1, ip=a) x")[0].key != split("(W pid=2, ip=a) x")[0].key


@pytest.mark.parametrize(
    ("name", "rank", "role"),
    [
        ("rank3.log", 3, None),
        ("rank_03.txt", 3, None),
        ("logs/attempt_0/2/stderr.log", 2, None),
        ("worker-1.log", 1, "worker"),
        ("ps_0.txt", 0, "ps"),
        ("chief.log", 0, "chief"),
        ("bert-master-0", 0, "master"),
        ("1/rank.3/stdout", 3, None),
        ("train.log", None, None),
        ("slurm-4711.out", None, None),
        ("model-v2.log", None, None),
    ],
)
def test_names_give_rank_and_role_away(name, rank, role):
    writer = identify(name)
    assert (writer.rank, writer.role) == (rank, role)


@pytest.mark.parametrize("line", ["Rank 0:", "### worker 1 ###", "rank1 log", "==> logs/rank2.log <=="])
def test_headings_name_the_writer_of_what_follows(line):
    assert heading(line) is not None


@pytest.mark.parametrize("line", ["rank 0 failed", "worker 1: boom", "Epoch 1:"])
def test_sentences_are_not_headings(line):
    assert heading(line) is None


def test_the_stamps_of_a_container_runtime_are_taken_off():
    lines = [f"2024-05-01T10:00:0{n}.123456789Z stderr F [rank{n}]: text {n}" for n in range(5)]
    writer, text = Prefixes(lines).split(lines[3])
    assert (writer.rank, text) == (3, "text 3")


def test_the_logger_of_a_program_itself_stays_in_its_lines():
    lines = [f"2020-03-04 05:06:0{n},123 - INFO - step {n}" for n in range(5)]
    assert Prefixes(lines).split(lines[3])[1] == lines[3]
    lines.append("2020-03-04 05:06:09,123 - INFO - Traceback (most recent call last):")
    assert Prefixes(lines).split(lines[3])[1] == "step 3"


@pytest.mark.parametrize("pattern", prefix._NEEDED, ids=lambda pattern: pattern.pattern[:30])
def test_what_a_habit_needs_is_in_every_line_that_has_it(pattern):
    @given(st.from_regex(pattern.compiled))
    def check(line):
        assert prefix._NEEDED[pattern] in line

    check()


@pytest.mark.parametrize(
    "pattern", [prefix._SPOKEN, prefix._CLOUD, prefix._TOLD], ids=lambda pattern: pattern.pattern[:30]
)
def test_a_line_that_begins_with_a_name_is_asked_for_it(pattern):
    @given(st.from_regex(pattern.compiled))
    def check(line):
        assert prefix._NAMED_FIRST.match(line)

    check()


@given(
    st.lists(st.lists(st.sampled_from(["[", "]<std", "rank", "node", "agent", "Host", "pid=", " ", "x"])).map("".join))
)
def test_lines_are_marked_just_when_one_of_them_is(lines):
    assert prefix._are_marked(lines) == (any("]<std" in line for line in lines) or any(map(prefix._is_marked, lines)))


def test_a_prefix_of_junk_is_read():
    raw = b"[1,0][\xff\xfe]<stderr>: text"
    assert Prefixes(()).is_of_another(raw, 0, len(raw), "1")
    assert not Prefixes(()).is_of_another(raw, 0, len(raw), "0")


def test_a_program_that_says_whose_exception_it_got_is_believed():
    writer, _ = Prefixes(()).split("Rank 3 got exception: CUDA out of memory")
    assert writer.rank == 3
    assert Prefixes(()).split("Rank 3 is ready")[0].rank is None


def test_the_errors_of_a_group_of_workers_come_under_their_ranks():
    writer = heading("[Rank 3 Error Snippet]:")
    assert writer is not None and writer.rank == 3


def test_torchruns_tee_tells_the_rank_on_its_host():
    writer, text = Prefixes(()).split("[default2]:boom")
    assert (writer.rank, writer.local, text) == (None, 2, "boom")


def test_only_the_process_itself_is_sure_to_number_ranks():
    own, _ = Prefixes(()).split("[rank2]: boom")
    viewers, _ = Prefixes(()).split("(worker1, rank=1, pid=4711) boom")
    assert own.own and not viewers.own and viewers.role is None


def test_a_described_pod_names_the_writer_of_what_follows():
    writer = heading("Name:           job-1535595694-chief-0")
    assert writer is not None and (writer.rank, writer.role) == (0, "chief")
    assert heading("Name: nvidia-driver-0") is None
