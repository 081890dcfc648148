# SPDX-License-Identifier: Apache-2.0
"""An agent's contact with a leader that answers late: ranks that ran under a lease that ended are over for good."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from keepstep.supervise.layout import Layout
from keepstep.supervise.nodes.contact import Contact
from keepstep.supervise.nodes.link import Got
from keepstep.supervise.nodes.links import Hub
from keepstep.supervise.nodes.messages import Beat, Heard, Hello, Start, State, Welcome

LEASE_S = 0.6


class Leader:
    """Answers beats when it is told to."""

    def __init__(self) -> None:
        self.hub = Hub(None)
        self.link = 0
        self.beats: list[int] = []

    def listen(self, seconds: float, *, answer: bool) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            event = self.hub.receive(left)
            if isinstance(event, Got) and isinstance(event.message, Hello):
                self.link = event.link
                self.hub.send(event.link, Welcome(lease_s=LEASE_S))
            elif isinstance(event, Got) and isinstance(event.message, Beat):
                self.beats.append(event.message.number)
                if answer:
                    self.hub.send(event.link, Heard(number=event.message.number))


@pytest.fixture
def leader() -> Iterator[Leader]:
    made = Leader()
    with contextlib.closing(made.hub):
        yield made


def hello(attempt: int, state: State) -> Hello:
    return Hello(
        run="r", node=0, host="a", address=None, version="1", python="3", program="p", per_node=1, attempt=attempt
    )


def test_a_lease_that_ended_is_over_for_its_ranks_also_when_an_answer_comes_later(leader: Leader) -> None:
    with contextlib.closing(Contact(leader.hub.local, hello, lambda left: None, anew=False)) as contact:
        leader.listen(0.5, answer=True)
        assert contact.may_start(Start(attempt=0, layout=Layout()))
        assert not contact.is_over
        leader.listen(LEASE_S + 0.6, answer=False)
        assert contact.is_over
        leader.listen(0.6, answer=True)
        assert contact.is_over, "the reaper has ended these ranks"
        assert contact.may_start(Start(attempt=1, layout=Layout()))
        assert not contact.is_over
