# SPDX-License-Identifier: Apache-2.0
"""The page: whole, self-contained, escaped, redacted, and right about who began it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_reports import NOON, finding, out_of_memory, piece

from keepstep.model.cause import Cause
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.facts.process import ProcessExited
from keepstep.model.report import Report, Verdict
from keepstep.render.html import render_html
from keepstep.render.timeline import MOST_LANES, Axis, lay_out

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: tags in balance, attributes, text by element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not (self.open and self.open[-1] == "style"):
            self.text.append(data)


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)",
    "<!-- ]]> --> <![CDATA[",
    "javascript:alert(1)",
    "$css ${script} $$ {title}",
    "\x00\x1b[31m\x08\ud800 \u202egnp.exe",
    "`<b>` `unclosed",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_never_obeyed(text: str) -> None:
    plain, page = Page(render_html(out_of_memory(4))), Page(render_html(out_of_memory(4, text=text)))
    assert page.tags.count("script") == 1
    assert {t for t in page.tags if t != "code"} == {t for t in plain.tags if t != "code"}
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert page.scripts == plain.scripts
    if text.isprintable() and "`" not in text:
        assert text in "".join(page.text)


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_leaves_the_page_in_balance(text: str) -> None:
    page = Page(render_html(out_of_memory(4, text=text)))
    assert page.tags.count("script") == 1


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = render_html(out_of_memory(64))
    page = Page(text)
    for _, name, value in page.attributes:
        if name in ("src", "href", "action", "srcset", "data", "xlink:href"):
            assert value.startswith(("#", "data:")), value
    assert "@import" not in text
    assert not re.search(r"url\(", text)


def test_the_policy_lets_only_the_pages_own_script_run() -> None:
    page = Page(render_html(out_of_memory(4)))
    (policy,) = [v for tag, name, v in page.attributes if tag == "meta" and "default-src" in v and name == "content"]
    digest = base64.b64encode(hashlib.sha256("".join(page.scripts).encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_secrets_are_redacted_in_the_page() -> None:
    assert "hunter2x" not in render_html(out_of_memory(4, text="password=hunter2x"))


def test_every_link_within_the_page_has_its_target() -> None:
    page = Page(render_html(out_of_memory(64)))
    ids = {value for _, name, value in page.attributes if name == "id"}
    links = {value[1:] for _, name, value in page.attributes if name == "href" and value.startswith("#")}
    assert links <= ids


def test_the_page_says_what_happened_and_what_to_do() -> None:
    text = " ".join(" ".join(Page(render_html(out_of_memory(64))).text).split())
    for said in (
        "The run failed",
        "rank 3 ran out of GPU memory",
        "resource.gpu_oom",
        "rank 3 of 64",
        "What to do",
        "changes results",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "From cause to fallout",
        "logs/rank3.log :88",
        "kernel log",
        "needs root",
        "NUM003",
        "keepstep.report/1",
    ):
        assert said in text, said


def test_a_healthy_run_says_what_was_looked_at() -> None:
    seen = Coverage(what="2 logs (1 MB)", state=CoverageState.CHECKED)
    text = " ".join(Page(render_html(Report(verdict=Verdict.HEALTHY, coverage=(seen,)))).text)
    assert "Nothing wrong was found" in text and "2 logs (1 MB)" in text
    assert "What to do" not in text


def test_an_empty_report_is_a_page_too() -> None:
    assert "nothing to look at" in render_html(Report(verdict=Verdict.UNKNOWN))


def test_the_timeline_goes_by_the_clock_where_clocks_are_known() -> None:
    laid = lay_out(out_of_memory(8))
    assert laid is not None and laid.axis is Axis.TIME and laid.day == "2025-11-15"
    by_rank = {lane.ranks: lane for lane in laid.lanes}
    assert by_rank[3,].blamed and by_rank[3,].events[0].x == 0
    assert by_rank[0,].events[0].x == pytest.approx(600 / 700)
    assert by_rank[()].events[0].x == 1
    assert [tick.text for tick in laid.ticks] == ["12:00", "12:05", "12:10"]


def test_the_timeline_goes_by_lines_of_one_log_without_clocks() -> None:
    laid = lay_out(out_of_memory(8, timed=False, one_file=True))
    assert laid is not None and laid.axis is Axis.LINES
    first = min((event.x, lane.ranks) for lane in laid.lanes for event in lane.events)
    assert first[1] == (3,)


def test_the_timeline_goes_by_cause_for_several_logs_without_clocks() -> None:
    laid = lay_out(out_of_memory(8, timed=False))
    assert laid is not None and laid.axis is Axis.CAUSE
    assert [tick.text for tick in laid.ticks] == ["RES001", "SYN001", "PRC001"]


def test_an_event_without_a_time_stands_after_the_line_above_it() -> None:
    ended = ProcessExited(reporter="sh", code=1)
    pieces = [
        piece(0, ended, "a", "x.log", 10, NOON),
        piece(0, ended, "b", "x.log", 20, NOON + 10),
        piece(1, ended, "c", "x.log", 25, None),
        piece(2, ended, "d", "x.log", 1, None),
    ]
    laid = lay_out(
        Report(
            verdict=Verdict.FAILED,
            findings=tuple(finding(f"AAA00{n}", Cause.USER_CODE_EXCEPTION, "t", p) for n, p in enumerate(pieces)),
        )
    )
    assert laid is not None
    where = {lane.ranks[0]: lane.events[-1] for lane in laid.lanes}
    assert (where[1].x, where[1].guessed) == (1, True)
    assert (where[2].x, where[2].guessed) == (0, True)


def test_quiet_ranks_share_a_lane_and_thousands_of_ranks_have_an_end() -> None:
    whole = out_of_memory(64)
    alone = Report(verdict=Verdict.FAILED, findings=whole.findings[:1], ranks=tuple(range(64)), world_size=64)
    laid = lay_out(alone)
    assert laid is not None
    assert [lane.ranks for lane in laid.lanes] == [(0,), (1,), (2,), (3,), tuple(range(4, 64))]
    many = lay_out(out_of_memory(4096))
    assert many is not None and len(many.lanes) <= MOST_LANES + 1
    assert many.left_out == 4096 - MOST_LANES
    assert any(lane.blamed for lane in many.lanes)
    assert len(render_html(out_of_memory(4096))) < 2_000_000


def test_evidence_is_shown_with_the_lines_around_it(tmp_path) -> None:
    from keepstep.analyze.why import explain_paths
    from keepstep.render.excerpt import surroundings

    lines = (
        [f"line {n} <b>" for n in range(40)]
        + ["OSError: [Errno 98] Address already in use"]
        + ["after it hf_" + "Ab1" * 12]
    )
    (tmp_path / "rank0.log").write_text("\n".join(lines) + "\n")
    explained = explain_paths([tmp_path])
    page = render_html(explained.report, surroundings(explained.report, explained.files))
    assert "line 39 &lt;b&gt;" in page
    assert "line 30" not in page
    assert "after it [redacted]" in page
