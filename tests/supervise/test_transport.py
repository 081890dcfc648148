# SPDX-License-Identifier: Apache-2.0
"""Another transport in place of NCCL: when it is offered, and to whom."""

from __future__ import annotations

import pytest

from keepstep.model.cause import Cause
from keepstep.model.facts.network import InterfaceMissing
from keepstep.model.finding import Safety
from keepstep.supervise.decide.decision import Settings
from keepstep.supervise.decide.policy import decide
from keepstep.supervise.decide.remedy import RemedyMode
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.decide.transport import other_transport
from tests.supervise.test_remedies import report

NCCL = "NCCL WARN NET/IB : Got completion from peer with status=12"
BROKEN = report(Cause.NETWORK_RDMA_IB, InterfaceMissing(), NCCL)


@pytest.mark.parametrize(("framework", "name"), [("tensorflow", "ring"), ("torch", "gloo")])
def test_each_framework_gets_its_own_and_hears_what_it_costs(framework: str, name: str) -> None:
    (found,) = other_transport(BROKEN, frozenset({framework}), {})
    assert dict(found.variables) == {"KEEPSTEP_COLLECTIVES": name}
    assert "costs speed" in found.does and found.safety is Safety.NEEDS_OWNER


def test_nothing_is_offered_where_it_could_not_work_or_nccl_did_not_fail() -> None:
    torch = frozenset({"torch"})
    assert other_transport(BROKEN, torch, {"KEEPSTEP": "off"}) == ()
    assert other_transport(BROKEN, frozenset({"jax"}), {}) == ()
    assert other_transport(report(Cause.NETWORK_RDMA_IB, InterfaceMissing(), "ibv_reg_mr"), torch, {}) == ()
    assert other_transport(report(Cause.USER_CODE_EXCEPTION, InterfaceMissing(), NCCL), torch, {}) == ()


def test_it_is_applied_only_if_everything_may_be() -> None:
    offered = other_transport(BROKEN, frozenset({"torch"}), {})
    now = Situation(number=0, happened=Happened.EXITED, report=BROKEN, code=1)
    safe = decide(now, (), Settings(), offered=offered)
    assert not safe.remedies and any("gloo instead of NCCL" in each.do for each in safe.advice)
    assert decide(now, (), Settings(remedy=RemedyMode.ALL), offered=offered).remedies == offered
