# SPDX-License-Identifier: Apache-2.0
"""Beats and their answers have a way of their own through the codec: it must say what the general one says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.messages import BadMessage, Beat, Heard, State, decode, encode

NUMBERS = st.integers(-(2**63), 2**63)
BEATS = st.builds(
    Beat,
    number=NUMBERS,
    attempt=NUMBERS,
    state=st.sampled_from(State),
    steps=NUMBERS,
    quiet_s=st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 100),
)
HEARD = st.builds(Heard, number=NUMBERS)


def general(line: bytes) -> messages.Message | None:
    try:
        return messages._decode_any(line)
    except BadMessage:
        return None


def either(line: bytes) -> messages.Message | None:
    try:
        return decode(line)
    except BadMessage:
        return None


@settings(max_examples=100)
@given(BEATS | HEARD)
def test_what_is_written_is_read(message: Beat | Heard) -> None:
    assert decode(encode(message)) == message == messages._decode_any(encode(message))


@settings(max_examples=200)
@given(BEATS | HEARD, st.data())
def test_a_damaged_one_is_read_as_the_general_way_reads_it(message: Beat | Heard, data: st.DataObject) -> None:
    line = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(line) - 1))
        line[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(b'0123456789-+.e,:"{}\n x').map(lambda c: bytes([c]))
        )
    assert either(bytes(line)) == general(bytes(line))


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"heard","number":01}\n',
        b'{"kind":"heard","number":1.5}\n',
        b'{"kind":"heard","number":true}\n',
        b'{"kind":"heard","number":99999999999999999999999}\n',
        b'{"kind":"beat","number":1,"attempt":0,"state":"runs","steps":0,"quiet_s":1e999}\n',
        b'{"kind":"beat","number":1,"attempt":0,"state":"sleeps","steps":0,"quiet_s":null}\n',
        b'{"kind":"beat","number":1,"attempt":0,"state":"runs","steps":0,"quiet_s":NaN}\n',
        '{"kind":"heard","number":\u0661}\n'.encode(),
    ],
)
def test_what_is_wrong_is_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(line)
