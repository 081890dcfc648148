"""Lines that a terminal broke are joined; drawings and prose are left alone."""

from keepstep.parse.scan.lines.wrapping import Unwrapped


def wrapped(text: str, width: int) -> bytes:
    return "\n".join(text[i : i + width] for i in range(0, len(text), width)).encode()


def test_text_broken_at_the_edge_is_joined_and_lines_keep_their_numbers():
    long = "".join(chr(97 + (n * n + n // 7) % 26) for n in range(403))
    joined = Unwrapped(wrapped(long, 80) + b"\nend\n")
    assert joined.text == long.encode() + b"\nend\n"
    assert joined.line_shift(len(long)) == 5


def test_prose_of_varying_width_is_left_alone():
    text = b"\n".join(b"word " * n for n in range(1, 20))
    assert Unwrapped(text).text == text


def test_tables_and_boxes_are_left_alone():
    text = b"\n".join([b"+" + b"-" * 78 + b"+", b"|" + b" x" * 39 + b"|"] * 5)
    assert Unwrapped(text).text == text


def test_log_lines_of_equal_length_stay_apart():
    lines = [
        f"[E ProcessGroupNCCL.cpp:475] [Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(x)"
        for n in range(5)
    ]
    text = "\n".join(lines).encode()
    assert Unwrapped(text).text == text


def test_progress_lines_of_equal_length_stay_apart():
    text = "\n".join(
        f"Epoch(train)  [{n}][ 50/1000]  lr: 1.9e-02  eta: 1:00:00  time: 0.31  data_time: 0.01" for n in range(6)
    ).encode()
    assert Unwrapped(text).text == text


def test_lines_of_equal_length_that_begin_alike_stay_apart():
    lines = [
        f"Epoch: [0][{n}/5005]\tTime 0.353 (0.360)\tData 0.001 (0.002)\tLoss 6.9076 (6.9079)\tAcc 0.1"
        for n in range(1000, 1006)
    ]
    text = "\n".join(lines).replace("\t", " ").encode()
    assert Unwrapped(text).text == text
