"""Which addresses and ports work, by what was tried between hosts, and which remedies follow from that. Pure."""

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed, Reached
from keepstep.model.facts.paths import AddressTried, PortsTried
from keepstep.model.finding import Confidence, Finding, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.executor import Applied
from keepstep.supervise.nodes.lead.network_look import Hosts, _roomiest
from keepstep.supervise.nodes.lead.path_remedies import other_paths
from keepstep.supervise.nodes.lead.reachable import Way, in_a_row, reached_ports, unreached, ways

NODES = {"a": (0,), "b": (1,)}
TORCH = frozenset({"torch"})
NEEDS = {0: 5, 1: 5}


def saw(*facts: Fact) -> tuple[Evidence[Fact], ...]:
    return tuple(Evidence(fact=fact, origin=Origin(source="a test")) for fact in facts)


def tried(source: str, target: str, address: str, interface: str, *, works: bool = True) -> AddressTried:
    reached = Reached.CONNECTED if works else Reached.NO_ANSWER
    return AddressTried(source=source, target=target, address=address, interface=interface, reached=reached)


def probed(source: str, target: str, *, works: bool, of_the_job: bool = True) -> LinkProbed:
    reached = Reached.CONNECTED if works else Reached.NO_ANSWER
    return LinkProbed(source=source, target=target, port=20000, of_the_job=of_the_job, reached=reached)


def report(cause: Cause, confidence: Confidence = Confidence.ESTABLISHED) -> Report:
    finding = Finding(
        rule="X001",
        cause=cause,
        title="it broke",
        because="it was seen",
        evidence=saw(probed("a", "b", works=False)),
        ranks=(0,),
        confidence=confidence,
        severity=Severity.FATAL,
        standing=Standing.MECHANISM,
    )
    return Report(verdict=Verdict.FAILED, findings=(finding,))


def offered(cause: Cause, *facts: Fact, applied: Applied | None = None, uses: frozenset[str] = TORCH) -> list[Remedy]:
    hosts = Hosts(saw(*facts), NODES)
    return list(other_paths(report(cause), hosts, applied or Applied(), NEEDS, uses))


BOTH = (
    tried("a", "b", "10.0.0.2", "ens5"),
    tried("a", "b", "10.9.0.2", "eth1", works=False),
    tried("b", "a", "10.9.0.1", "eth1", works=False),
    tried("b", "a", "10.0.0.1", "eth0"),
)


def test_each_host_gets_the_interface_that_all_others_reach():
    assert ways(saw(*BOTH)) == {"a": Way("10.0.0.1", "eth0"), "b": Way("10.0.0.2", "ens5")}


def test_one_host_that_does_not_reach_an_address_is_enough_to_leave_it():
    more = tried("c", "b", "10.0.0.2", "ens5", works=False)
    assert ways(saw(*BOTH, more)) == {}


def test_a_name_that_most_hosts_have_is_preferred_then_the_older_protocol():
    seen = saw(
        tried("a", "b", "10.7.0.2", "mgmt0"),
        tried("a", "b", "fd00::2", "eth0"),
        tried("a", "b", "10.0.0.2", "eth0"),
        tried("b", "a", "10.0.0.1", "eth0"),
    )
    assert ways(seen)["b"] == Way("10.0.0.2", "eth0")


def test_the_interface_is_pinned_for_each_node_by_its_own_name():
    (remedy,) = offered(Cause.NETWORK_WRONG_INTERFACE, *BOTH)
    variables = {node: dict(each) for node, each in remedy.by_node}
    assert variables[0]["GLOO_SOCKET_IFNAME"] == "eth0" and variables[1]["GLOO_SOCKET_IFNAME"] == "ens5"
    assert variables[1]["NCCL_SOCKET_IFNAME"] == "=ens5" and variables[1]["TP_SOCKET_IFNAME"] == "ens5"
    assert not remedy.addresses and not remedy.advice_only
    assert "10.0.0.1 of a and 10.0.0.2 of b" in remedy.does and "cost" in remedy.does
    applied = Applied()
    applied.take(remedy)
    assert applied.variables_of(1)["GLOO_SOCKET_IFNAME"] == "ens5"
    assert offered(Cause.NETWORK_WRONG_INTERFACE, *BOTH, applied=applied) == []


def test_the_address_moves_where_the_job_used_one_that_another_host_cannot_reach():
    links = (probed("a", "b", works=False), probed("b", "a", works=True))
    (remedy,) = offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *BOTH, *links)
    assert remedy.addresses == ((1, "10.0.0.2"),)
    assert unreached(saw(*links)) == {"b"}
    assert unreached(saw(*links, PortsTried(source="a", target="b", reached=(5000,)))) == set()


def test_nothing_is_pinned_if_every_address_works_or_if_it_is_a_guess():
    well = [each for each in BOTH if each.usable]
    assert offered(Cause.NETWORK_WRONG_INTERFACE, *well) == []
    guess = report(Cause.NETWORK_WRONG_INTERFACE, Confidence.HYPOTHESIS)
    assert other_paths(guess, Hosts(saw(*BOTH), NODES), Applied(), NEEDS, TORCH) == ()


PORTS = (
    probed("b", "a", works=False),
    probed("b", "a", works=True, of_the_job=False),
    PortsTried(source="b", target="a", reached=(2222, 35000), blocked=(20500,)),
    PortsTried(source="b", target="a", reached=tuple(range(35000, 35009))),
)


def test_only_ports_that_every_host_reaches_are_used():
    assert reached_ports(saw(*PORTS))["a"] == [2222, *range(35000, 35009)]
    more = PortsTried(source="c", target="a", reached=(35000,), blocked=(35004,))
    assert in_a_row(reached_ports(saw(*PORTS, more))["a"]) in ([35000, 35001, 35002, 35003], [*range(35005, 35009)])


def test_the_job_moves_to_ports_in_a_row_on_the_host_that_blocks():
    (remedy,) = offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *PORTS)
    assert remedy.ports == ((0, (35000, 35001, 35002, 35003, 35004)),)
    applied = Applied()
    applied.take(remedy)
    assert offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *PORTS, applied=applied) == []


def test_too_few_open_ports_are_no_remedy():
    few = PORTS[:3]
    assert offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *few) == []


def test_libraries_that_take_any_free_port_get_advice_and_tensorflow_its_ports():
    free = probed("b", "a", works=False, of_the_job=False)
    facts = (PORTS[0], free, *PORTS[2:])
    (advice,) = offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *facts)
    assert advice.advice_only and "gloo and NCCL take any free port" in advice.does
    (remedy,) = offered(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, *facts, uses=frozenset({"tensorflow"}))
    assert remedy.ports


def test_the_largest_open_range_is_used():
    assert _roomiest([2222, 10000, 12500, 15500, 64000]) == 10000
    assert _roomiest([64000]) == 64000
