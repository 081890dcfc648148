"""Tracebacks in all the shapes in which they are printed."""

from keepstep.model.facts.process import ExceptionRaised, TracebackCut
from keepstep.parse.formats import traceback as module
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan

KNOWLEDGE = build((), module.BLOCKS)


def raised(text: str) -> list[ExceptionRaised]:
    sightings = LogScan(KNOWLEDGE).scan([text.encode()])
    return [s.fact for s in sightings if isinstance(s.fact, ExceptionRaised)]


PLAIN = """\
Traceback (most recent call last):
  File "/srv/app/train.py", line 10, in <module>
    main()
    ~~~~^^
  File "/srv/app/train.py", line 5, in main
    return batch["label"]
KeyError: 'label'
"""


def test_a_plain_traceback():
    (fact,) = raised(PLAIN)
    assert (fact.type, fact.message) == ("KeyError", "'label'")
    assert [(f.function, f.line) for f in fact.frames] == [("<module>", 10), ("main", 5)]


def test_a_chained_one_gives_both():
    first, second = raised(
        PLAIN
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + PLAIN.replace("Key", "Value")
    )
    assert (first.type, first.chained) == ("KeyError", True)
    assert (second.type, second.chained) == ("ValueError", False)


def test_two_ranks_interleaved_line_by_line():
    one = [f"[rank0]: {line}" for line in PLAIN.splitlines()]
    two = [f"[rank1]: {line}" for line in PLAIN.replace("KeyError: 'label'", "OSError: gone").splitlines()]
    mixed = "\n".join(line for pair in zip(one, two, strict=True) for line in pair)
    assert {(f.type, len(f.frames)) for f in raised(mixed)} == {("KeyError", 2), ("OSError", 2)}


def test_the_first_line_was_not_copied():
    (fact,) = raised(PLAIN.partition("\n")[2])
    assert (fact.type, [f.function for f in fact.frames]) == ("KeyError", ["<module>", "main"])


def test_a_stack_that_is_only_printed_is_no_exception():
    assert (
        raised(
            '  File "/srv/app/train.py", line 5, in main\n    print_stack()\nEpoch: 3\nValueError of the metric: 0.3\n'
        )
        == []
    )


def test_only_the_last_line_is_left():
    (fact,) = raised(
        "    return f(x)\ntorch.distributed.DistBackendError: NCCL error in: x.cpp:1\nncclInvalidUsage: bad\n"
    )
    assert fact.type == "torch.distributed.DistBackendError"
    assert "ncclInvalidUsage" in fact.message


def test_a_name_that_processes_on_one_terminal_printed_over_each_other_is_taken_once():
    (fact,) = raised(PLAIN.replace("KeyError: 'label'", "KeyErrorKeyErrorKeyError: : : 'label'"))
    assert (fact.type, fact.message) == ("KeyError", "'label'")
    (fact,) = raised(PLAIN.replace("KeyError", "MyErrorError"))
    assert fact.type == "MyErrorError"


def test_the_name_under_which_jax_raises_again_is_left_out():
    (fact,) = raised("jax._src.traceback_util.UnfilteredStackTrace: TypeError: true_fun and false_fun differ\n")
    assert (fact.type, fact.message) == ("TypeError", "true_fun and false_fun differ")


def test_one_drawn_by_rich():
    text = (
        "╭───── Traceback (most recent call last) ─────╮\n"
        "│ /srv/app/data.py:74 in __init__             │\n"
        "╰─────────────────────────────────────────────╯\n"
        "ValueError: Invalid rank 4\n"
    )
    (fact,) = raised(text)
    assert fact.type == "ValueError"
    assert fact.frames[0].file == "/srv/app/data.py"


def test_an_exception_group_gives_its_members():
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/srv/app/t.py", line 3, in <module>\n'
        "  |     run()\n"
        "  | ExceptionGroup: many (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/srv/app/t.py", line 9, in work\n'
        "    |     raise KeyError(1)\n"
        "    | KeyError: 1\n"
        "    +------------------------------------\n"
    )
    assert "KeyError" in {f.type for f in raised(text)}


def test_one_printed_by_a_logger_is_marked():
    (fact,) = raised("2024-01-01 10:00:00 ERROR trainer: retrying\n" + PLAIN)
    assert fact.logged


def test_a_log_line_that_only_speaks_of_an_error_is_none():
    assert raised("0 errors so far\nError rate: 0.1\nFixed the ValueError: yes\n") == []


def test_a_truncated_traceback_gives_nothing_wrong():
    assert raised(PLAIN[: PLAIN.index("KeyError")]) == []


def test_one_whose_every_line_carries_a_time():
    text = "".join(f"2024-05-01T10:00:00.{n}Z {line}\n" for n, line in enumerate(PLAIN.splitlines()))
    (fact,) = raised(text)
    assert (fact.type, len(fact.frames)) == ("KeyError", 2)


def test_an_ordinary_log_line_above_does_not_make_it_a_logged_one():
    (fact,) = raised("2024-01-01 10:00:00 INFO step 10 loss 0.5\n" + PLAIN)
    assert not fact.logged


def test_one_that_the_log_cuts_off_is_told_as_cut():
    sightings = list(LogScan(KNOWLEDGE).scan([PLAIN[: PLAIN.index("KeyError")].encode()]))
    (cut,) = [s.fact for s in sightings if isinstance(s.fact, TracebackCut)]
    assert [f.function for f in cut.frames] == ["<module>", "main"]
    assert not [s for s in LogScan(KNOWLEDGE).scan([PLAIN.encode()]) if isinstance(s.fact, TracebackCut)]


def test_the_first_root_error_of_tensorflow_is_an_exception_where_its_own_line_is_not_there():
    text = "2 root error(s) found.\n  (0) UNIMPLEMENTED:  DNN library is not found.\n  (1) UNIMPLEMENTED:  DNN library is not found.\n"

    assert [(each.type, each.message) for each in raised(text)] == [("UnimplementedError", "DNN library is not found.")]


def test_a_root_error_that_its_exception_lists_is_not_told_twice():
    text = "InvalidArgumentError: 2 root error(s) found.\n  (0) Invalid argument: Incompatible shapes\n"

    assert [each.type for each in raised(text)] == ["InvalidArgumentError"]


def test_a_kernel_that_failed_as_the_log_s_last_word_is_an_exception():
    text = (
        "W tensorflow/core/framework/op_kernel.cc:1318] OP_REQUIRES failed at cast_op.cc:8 : Invalid argument: no cast\n"
        "\t [[{{node Cast}}]]\n"
    )

    assert [(each.type, each.message) for each in raised(text)] == [("InvalidArgumentError", "no cast")]
    assert raised(text + "step 12 loss 0.3\n") == []


def test_an_iterator_that_came_to_its_end_is_none():
    assert raised("W op_kernel.cc:1] OP_REQUIRES failed at iterator_ops.cc:8 : Out of range: End of sequence\n") == []


def test_the_source_lines_of_the_innermost_frames_are_kept():
    (fact,) = raised(PLAIN)
    assert fact.code == ("main()", 'return batch["label"]')
    (headless,) = raised(PLAIN.partition("\n")[2])
    assert headless.code == fact.code


def test_a_traceback_set_into_a_table_is_indented_as_a_whole():
    text = (
        "  traceback : Traceback (most recent call last):\n"
        + "".join(f"  {line}\n" for line in PLAIN.splitlines()[1:])
        + "  \n"
    )

    (fact,) = raised(text)

    assert (fact.type, fact.message) == ("KeyError", "'label'")
    assert [f.line for f in fact.frames] == [10, 5]
