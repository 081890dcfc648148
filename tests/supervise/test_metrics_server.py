# SPDX-License-Identifier: Apache-2.0
"""`keepstep run --metrics`: what Prometheus gets of a real run, and the rules and the dashboard that ask for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from keepstep.analyze.run_metrics import metric_name
from keepstep.errors import UserError
from keepstep.render.prometheus import NAME, Family, render_prometheus
from keepstep.store.history.readings import READINGS
from keepstep.supervise.show.metrics_server import parse_address
from tests.supervise.starting import Running, wait_for

SHIPPED = Path(__file__).parents[2] / "docs" / "prometheus"
FINDS = {**os.environ, "PATH": os.environ["PATH"] + os.pathsep + os.environ.get("PROMETHEUS_BIN", "")}
SCRIPT = """
import time
from keepstep.guard import attach
for step in attach().steps(range(3000)):
    time.sleep(0.1)
"""


def tool(name: str) -> str:
    found = shutil.which(name, path=FINDS["PATH"])
    if found is None:
        pytest.skip(f"{name} is not installed (Debian's package prometheus; or set PROMETHEUS_BIN to its folder)")
    return found


def expressions() -> list[str]:
    rules = yaml.safe_load((SHIPPED / "keepstep-alerts.yml").read_text())
    dashboard = json.loads((SHIPPED / "keepstep-dashboard.json").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_query_that_is_shipped_asks_for_a_metric_that_exists() -> None:
    known = {metric_name(each) for each in READINGS.values()} | {
        *("goodput_ratio", "attempt", "ranks_seen", "ranks_silent", "restarts_total", "run_age_seconds"),
        *("time_seconds", "worst_rank_wait_ratio", "worst_rank_memory_bytes"),
    }
    asked = {name for each in expressions() for name in re.findall(r"keepstep_([a-z_]+)", each)}
    assert asked and asked <= known, asked - known


def test_no_two_readings_have_one_name() -> None:
    names = [metric_name(each) for each in READINGS.values()]
    assert len(set(names)) == len(names) and all(NAME.fullmatch(name) for name in names)


def test_text_is_escaped() -> None:
    family = Family("a", "one\ntwo")
    family.add(float("inf"), x='say "hi"\\\n')
    family.add(None)
    assert render_prometheus([family, Family("empty", "")]) == (
        '# HELP keepstep_a one\\ntwo\n# TYPE keepstep_a gauge\nkeepstep_a{x="say \\"hi\\"\\\\\\n"} +Inf\n'
    )


def test_an_address_is_loopback_unless_given() -> None:
    assert parse_address("9464") == ("127.0.0.1", 9464) and parse_address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert parse_address("[::1]:9") == ("::1", 9)
    for wrong in ("", "host", "host:", "1:99999"):
        with pytest.raises(UserError):
            parse_address(wrong)


def ended(run: Running) -> None:
    run.process.send_signal(signal.SIGTERM)
    run.finish()


def scraped(address: str, until: str) -> str:
    """The page, once it has a line that begins so."""
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                text: str = answer.read().decode()
        except OSError:
            text = ""
        if any(line.startswith(until) for line in text.splitlines()):
            return text
        time.sleep(0.3)
    pytest.fail(f"{until} never came: {text[:2000]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_prometheus_gets_what_it_asks_for(tmp_path: Path) -> None:
    port = free_port()
    run = Running(tmp_path, "-n", "2", "--metrics", str(port), script=SCRIPT)
    try:
        text = scraped(f"http://127.0.0.1:{port}/metrics", "keepstep_rank_step_seconds")
        for line in ('keepstep_rank_step{ranks="highest"} ', "keepstep_ranks_seen 2", "keepstep_ranks_expected 2"):
            assert line in text, text
        assert 'keepstep_worst_rank_memory_bytes{rank="0"} ' in text and "keepstep_host_memory_ratio{host=" in text
        assert "keepstep_gpu" not in text or Path("/dev/nvidiactl").exists()
    finally:
        ended(run)


def test_promtool_accepts_rules_and_page(tmp_path: Path) -> None:
    promtool, port = tool("promtool"), free_port()
    command = [promtool, "check", "rules", SHIPPED / "keepstep-alerts.yml"]
    rules = subprocess.run(command, capture_output=True, text=True)
    assert rules.returncode == 0, rules
    run = Running(tmp_path, "-n", "1", "--metrics", str(port), script=SCRIPT)
    try:
        text = scraped(f"http://127.0.0.1:{port}/metrics", "keepstep_rank_step_seconds")
    finally:
        ended(run)
    page = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert page.returncode == 0, page.stdout + page.stderr


@contextmanager
def prometheus_of(folder: Path, port: int) -> Iterator[int]:
    """A real one that scrapes a run every second and has the shipped rules; its own port."""
    own = free_port()
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{SHIPPED}/keepstep-alerts.yml]\n"
        f"scrape_configs:\n- job_name: k\n  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
    )
    command = [tool("prometheus"), "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{own}"]
    server = subprocess.Popen([*command, "--storage.tsdb.path=data"], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        yield own
    finally:
        server.terminate()
        server.wait()


@pytest.mark.long
def test_every_shipped_query_has_data_from_a_real_scrape(tmp_path: Path) -> None:
    port = free_port()
    with prometheus_of(tmp_path, port) as own:
        run = Running(tmp_path, "-n", "2", "--metrics", str(port), script=SCRIPT)
        try:
            scraped(f"http://127.0.0.1:{port}/metrics", "keepstep_rank_step_seconds")
            asked = {re.sub(r"\s*[<>]=?\s*[\d.]+", "", each) for each in expressions() if "keepstep_gpu" not in each}
            limit, empty = time.monotonic() + 120, asked
            while empty and time.monotonic() < limit:
                empty = {each for each in empty if not answered(own, each)}
                time.sleep(0.5)
            assert not empty
        finally:
            ended(run)


def test_a_restart_fires_the_shipped_rule(tmp_path: Path) -> None:
    port, fails = free_port(), "import os, signal, time\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    fails += "if os.environ['KEEPSTEP_ATTEMPT'] == '0': os.kill(os.getpid(), signal.SIGKILL)\n"
    with prometheus_of(tmp_path, port) as own:
        run = Running(tmp_path, "-n", "1", "--metrics", str(port), script=fails + SCRIPT)
        try:
            wait_for(lambda: answered(own, "keepstep_restarts_total == 0"))
            (run.folder / "go").touch()
            fired = 'ALERTS{alertname="KeepstepRestarted", alertstate="firing"}'
            wait_for(lambda: answered(own, fired))
        finally:
            ended(run)


def answered(port: int, query: str) -> list[Any]:
    try:
        address = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            found: list[Any] = json.loads(answer.read())["data"]["result"]
            return found
    except OSError:
        return []
