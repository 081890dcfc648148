# SPDX-License-Identifier: Apache-2.0
"""What a program of XLA holds at once, from its text."""

from __future__ import annotations

import pytest

from keepstep.check.memory.hlo_plan import Plan, plan
from keepstep.check.memory.hlo_text import parse_hlo

MIB = 1 << 20


def planned(body: str, head: str = "", before: str = "") -> Plan:
    return plan(parse_hlo(f"HloModule jit_step{head}\n\n{before}\nENTRY main.9 {{\n{body}\n}}\n"))


CHAIN = """
  x = f32[512,512]{1,0} parameter(0)
  w = f32[512,512]{1,0} parameter(1)
  a = f32[512,512]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[512,512]{1,0} tanh(a)
  c = f32[512,512]{1,0} multiply(b, b)
  ROOT d = f32[512,512]{1,0} dot(c, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def test_what_is_computed_element_by_element_is_held_once_where_a_product_needs_it() -> None:
    made = planned(CHAIN)
    assert (made.arguments, made.outputs, made.aliased) == (2 * MIB, MIB, 0)
    # c takes the place of a, of which nothing is read any more, and b is no array; then d is made beside c
    assert made.extra == 2 * MIB


def test_a_donated_argument_is_the_place_of_the_result() -> None:
    body = """
  w = bf16[1024,1024]{1,0} parameter(0)
  g = bf16[1024,1024]{1,0} parameter(1)
  ROOT n = bf16[1024,1024]{1,0} subtract(w, g)"""
    assert planned(body).extra == 2 * MIB
    for head in (", input_output_alias={ {}: (0, {}, may-alias) }", ", buffer_donor={ (0, {}) }"):
        made = planned(body, head)
        assert (made.extra, made.aliased, made.low_precision) == (0, 2 * MIB, False)


def test_the_room_of_a_result_is_taken_when_the_program_starts() -> None:
    body = """
  x = f32[512,512]{1,0} parameter(0)
  a = f32[512,512]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[512,512]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[512,512]{1,0} dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[512,512]{1,0} dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert planned(body).extra == 3 * MIB  # two of a, b and c at a time, and d
    assert planned(body, ", input_output_alias={ {}: (0, {}, may-alias) }").extra == 2 * MIB


REGION = """
body.1 {
  s = (s32[], f32[512,512]{1,0}, f32[512,512]{1,0}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[512,512]{1,0} get-tuple-element(s), index=1
  w = f32[512,512]{1,0} get-tuple-element(s), index=2
  a = f32[512,512]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[512,512]{1,0} dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(m, b, w)
}
cond.2 {
  s.1 = (s32[], f32[512,512]{1,0}, f32[512,512]{1,0}) parameter(0)
  n.1 = s32[] get-tuple-element(s.1), index=0
  most = s32[] constant(9)
  ROOT less = pred[] compare(n.1, most), direction=LT
}
"""
LOOP = """
  x = f32[512,512]{1,0} parameter(0)
  w = f32[512,512]{1,0} parameter(1)
  zero = s32[] constant(0)
  all = (s32[], f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(zero, x, w)
  many = (s32[], f32[512,512]{1,0}, f32[512,512]{1,0}) while(all), condition=cond.2, body=body.1
  ROOT y = f32[512,512]{1,0} get-tuple-element(many), index=1
"""


def test_a_loop_holds_its_state_once_and_one_rounds_temporaries() -> None:
    made = planned(LOOP, before=REGION)
    # a copy of x, which the caller keeps; a; b takes the place of x. w is only passed on
    assert 2 * MIB <= made.extra <= 2 * MIB + 64


def test_what_a_barrier_holds_back_is_computed_after_it() -> None:
    lines = ["  x = f32[512,512]{1,0} parameter(0)", "  w = f32[512,512]{1,0} parameter(1)"]
    product = "f32[512,512] dot({}, w)"
    last = "x"
    for n in range(6):
        lines.append(f"  a{n} = {product.format(last)}")
        last = f"a{n}"
    kept, again = list(lines), list(lines)
    for n in reversed(range(6)):
        kept += [f"  s{n} = f32[512,512]{{1,0}} sine(a{n})", f"  g{n} = {product.format(f's{n}')}"]
        kept.append(f"  h{n} = f32[512,512]{{1,0}} add(g{n}, {last})")
        again.append(f"  t{n} = (f32[512,512]{{1,0}}, f32[512,512]{{1,0}}) tuple(x, {last})")
        again.append(f"  o{n} = (f32[512,512]{{1,0}}, f32[512,512]{{1,0}}) opt-barrier(t{n})")
        again.append(f"  z{n} = f32[512,512]{{1,0}} get-tuple-element(o{n}), index=0")
        again += [f"  s{n} = f32[512,512]{{1,0}} sine(z{n})", f"  g{n} = {product.format(f's{n}')}"]
        again.append(f"  h{n} = f32[512,512]{{1,0}} add(g{n}, {last})")
        last = f"h{n}"
    ending = f"  ROOT r = f32[512,512]{{1,0}} negate({last})"
    assert planned("\n".join([*kept, ending])).extra >= 7 * MIB
    assert planned("\n".join([*again, ending])).extra <= 5 * MIB


@pytest.mark.parametrize(
    ("shape", "size"),
    [("f32[]", 4), ("pred[3]", 3), ("bf16[2,3]{1,0}", 12), ("s4[3]{0}", 2), ("c64[2]{0:T(8)}", 16), ("f8e4m3fn[5]", 5)],
)
def test_the_size_of_every_kind_of_element_is_known(shape: str, size: int) -> None:
    made = planned(f"  ROOT x = {shape} parameter(0)")
    assert made.arguments == size


def test_what_xla_writes_between_the_operands_is_no_part_of_their_names() -> None:
    lines = [f"  %p.{n} = f32[256]{{0}} parameter({n})" for n in range(7)]
    names = ["%p.0", "%p.1", "%p.2", "%p.3", "%p.4", "/*index=5*/%p.5", "%p.6"]
    lines += [f"  %n.{n} = f32[256]{{0}} negate(f32[256]{{0}} {name})" for n, name in enumerate(names)]
    made = ", ".join(name.replace("%p", "%n") for name in names)
    shape = ", ".join(["f32[256]{0}"] * 5 + ["/*index=5*/f32[256]{0}", "f32[256]{0}"])
    assert planned("\n".join([*lines, f"  ROOT %t = ({shape}) tuple({made})"])).outputs == 7 * 1024


def test_a_graph_holds_what_is_ready_long_before_it_is_needed() -> None:
    text = """HloModule step
ENTRY main {
  momentum = f32[1000] parameter(0)
  x = f32[1000,10] parameter(1)
  zero = f32[] constant(0)
  ones = f32[1000] broadcast(zero), dimensions={}
  y = f32[1000,10] negate(x)
  z = f32[1000,10] exponential(y)
  gradient = f32[1000] reduce(z, zero), dimensions={1}, to_apply=add
  decayed = f32[1000] multiply(momentum, ones)
  ROOT new = f32[1000] add(decayed, gradient)
}
"""
    module = parse_hlo(text)
    assert plan(module, compiled=False).extra >= plan(module).extra + 4000


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ValueError, match="no entry"):
        parse_hlo("HloModule nothing\n")
