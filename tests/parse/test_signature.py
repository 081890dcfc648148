"""Signatures: patterns to facts, and the anchors that make them fast."""

import dataclasses
import types
import typing

import pytest

from keepstep.model.codec import fact_types
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.signature import converter, signature


def test_named_groups_become_typed_fields():
    fact = signature(r"port (?P<port>\d+) is taken at (?P<address>\S+)", PortTaken).read("port 2222 is taken at a:1")
    assert fact == PortTaken(port=2222, address="a:1")


def test_a_tuple_field_takes_every_number_of_its_group():
    row = signature(r"missing ranks: (?P<missing>\[[^\]]*\])", RanksMissing)
    assert row.read("missing ranks: [1, 2, 13]") == RanksMissing(missing=(1, 2, 13))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("If you see `Address already in use`, choose another port", False),
        ("bind failed if you like. Address already in use", True),
        ("Address already in use. If you see this, choose another port", True),
    ],
)
def test_what_a_text_only_advises_about_has_not_happened(text, read):
    assert (signature(r"Address already in use", PortTaken).read(text) is not None) is read


def test_a_blank_also_matches_a_line_break():
    assert signature(r"Address already in use", PortTaken).read("Address already\n   in use") is not None


def test_a_blank_in_a_look_behind_keeps_its_width():
    row = signature(r"(?<!not an )undefined symbol", PortTaken)
    assert row.read("undefined symbol") is not None
    assert row.read("not an undefined symbol") is None


@pytest.mark.parametrize(
    ("pattern", "anchors"),
    [
        (r"Address already in use", ("Address already in use",)),
        (r"(?:foo barbaz|quux corge)", ("foo barbaz", "quux corge")),
        (r"x{1,3}(?:optional)?the longest run\d+", ("xoptionalthe longest run", "xthe longest run")),
        (r"\d{1,3}[ \w]{0,9}the longest run\d+", ("the longest run",)),
        (r"[Nn]o room (?:left|for \w+) here", ("No room left", "No room for ", "no room left", "no room for ")),
        (r"RuntimeError: (?:The file \S+ is empty)", ("RuntimeError: The file ",)),
        (r"(?i)Some Words", ("some words",)),
    ],
)
def test_anchors_are_the_rarest_literals_of_every_match(pattern, anchors):
    assert signature(pattern, PortTaken).anchors == anchors


def test_a_pattern_without_a_literal_is_refused():
    with pytest.raises(ValueError, match="no literal"):
        signature(r"\d+ \w+", PortTaken)


def test_a_group_that_the_fact_does_not_have_is_refused():
    with pytest.raises(TypeError, match="no nonsense"):
        signature(r"port taken (?P<nonsense>\d+)", PortTaken)


def test_a_type_in_words_means_the_same_as_evaluated():
    for kind in fact_types().values():
        hints = typing.get_type_hints(kind)
        for each in dataclasses.fields(kind):
            where = f"{kind.__name__}.{each.name}"
            hint = hints[each.name]
            options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
            if int in options:
                assert converter(each.type)("1,024") == 1024, where
            elif float in options:
                assert converter(each.type)("0.5") == 0.5, where
            elif each.type == "Pairs":
                continue  # never read from a text
            elif any(typing.get_origin(option) is tuple for option in options):
                assert converter(each.type)("ranks 1 and 2") == (1, 2), where
            else:
                assert converter(each.type)("1,024") == "1,024", where
