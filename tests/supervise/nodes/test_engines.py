"""What the command line says about nodes: refused before anything starts if it makes no sense."""

import pytest

from keepstep.cli.arguments.run import DESCRIPTION
from keepstep.errors import UserError
from keepstep.supervise.engines.choose import FOR_USERS, engine_of, station_of
from keepstep.supervise.engines.nodes_asked_for import Wanted

SECRET = {"KEEPSTEP_SECRET": "0123456789abcdef0123456789abcdef"}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(nodes="0", node_rank=0, meet="a:1"), "makes no sense"),
        (Wanted(nodes="4:3", node_rank=0, meet="a:1"), "makes no sense"),
        (Wanted(nodes="two", node_rank=0, meet="a:1"), "neither N nor MIN:MAX"),
        (Wanted(node_rank=0, meet="a:1"), "how many nodes"),
        (Wanted(nodes="2", node_rank=2, meet="a:1"), "not below --nodes 2"),
        (Wanted(nodes="2", meet="a:1"), "which node is this"),
        (Wanted(nodes="2", node_rank=1), "where do the nodes meet"),
        (Wanted(nodes="2", node_rank=1, meet="a"), "not HOST:PORT"),
        (Wanted(per_node=2), "which nodes"),
        (Wanted(on="yarn"), "--on yarn is not known"),
        (Wanted(hosts="a,-oProxyCommand=x"), "not a host name"),
        (Wanted(hosts="a,b", nodes="3"), "names only 2"),
    ],
)
def test_bad_input_is_a_clear_line(wanted, words):
    with pytest.raises(UserError, match=words):
        station_of(wanted, SECRET)


def test_without_a_secret_nothing_starts():
    with pytest.raises(UserError, match="no secret"):
        station_of(Wanted(nodes="2", node_rank=1, meet="a:1"), {})


def test_node_0_leads_and_the_others_call_it():
    first = station_of(Wanted(nodes="1:2", node_rank=0, meet="a:1234"), SECRET)
    second = station_of(Wanted(nodes="1:2", node_rank=1, meet="a:1234"), SECRET)
    assert first is not None and second is not None
    assert (first.call, first.listens) == (None, (None, 1234))
    assert second.call is not None
    assert (second.least, second.most, second.run) == (1, 2, first.run)


def test_agents_say_how_to_go_on_when_node_0_is_lost():
    asked = Wanted(nodes="2", node_rank=1, meet="node-0:23400", wait_s=300.0)
    found = station_of(asked, SECRET)
    assert found is not None and found.give_up_s == 300.0
    assert "start the same command with --node-rank 0 again where node-0 leads to, within 5 min" in found.no_successor


def test_one_machine_needs_no_engine():
    assert engine_of(Wanted(), {}) is None


@pytest.mark.parametrize("engine", FOR_USERS)
def test_the_help_has_an_example_for_every_engine(engine):
    says = {"meet": "--meet HOST:PORT", "ray": "--on ray", "slurm": "srun keepstep run", "ssh": "--hosts"}
    assert says.get(engine, engine) in DESCRIPTION.replace("Kubernetes", "kubernetes")
