"""Runs that are under way, seen in a real browser, and a server that answers to nobody else."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from shutil import copytree
from threading import Thread
from typing import NamedTuple

import pytest
from benchmarks.report_opening import DRAWN
from command_line import CommandLine
from faultless_page import faultless_page, sideways
from playwright.sync_api import Browser, Page
from small import small

from feddecorr.errors import UserError
from feddecorr.report.live import LOOPBACK, LivePage, address, open_server
from feddecorr.results.study import PlannedRun, write_plan
from feddecorr.runs.pipeline import run
from feddecorr.sweeps.jobs import plan
from feddecorr.sweeps.sweep import Sweep, SweepStudy

POINTS = "document.querySelectorAll('.plotly-graph-div')[1].data.map(line => [line.name, line.x.length])"


RANGE = "document.querySelectorAll('.plotly-graph-div')[1].layout.yaxis.range"


def zoom(page: Page) -> list[float]:
    """Draw a frame into the second figure with the mouse, and return the part of its y-axis that is shown then."""
    plot = page.locator(".plotly-graph-div").nth(1).locator(".nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    before = page.evaluate(RANGE)
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
    page.mouse.up()
    page.wait_for_function(f"JSON.stringify({RANGE}) !== '{json.dumps(before, separators=(',', ':'))}'")
    found: list[float] = page.evaluate(RANGE)
    return found


@contextmanager
def served(*folders: Path) -> Iterator[str]:
    """Give the address at which the runs are shown."""
    with open_server(LivePage(folders).current) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield address(server)
        server.shutdown()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "done"
    list(run(*small("rounds=1"), path))
    return path


def test_a_run_under_way_is_followed_and_others_join(browser: Browser, tmp_path: Path) -> None:
    """Without loading the page again: what the reader had switched off stays off, a figure keeps its zoom."""
    with served(tmp_path) as place, faultless_page(browser) as page:
        page.goto(place)
        page.get_by_text("There is no run yet.").wait_for()
        page.evaluate("window.loadedOnce = true")
        first = run(*small("rounds=3"), tmp_path / "first")
        next(first)
        page.get_by_role("cell", name="1 of 3").wait_for()
        assert page.evaluate(POINTS) == [["FedAvg", 1]]
        second = run(*small("rounds=3", "regularizers=feddecorr"), tmp_path / "more" / "second")
        next(second)
        page.get_by_label("FedAvg + FedDecorr").uncheck()
        zoomed = zoom(page)
        next(first)
        page.get_by_role("cell", name="2 of 3").wait_for()
        assert page.evaluate(POINTS) == [["FedAvg", 2], ["FedAvg + FedDecorr", 1]]
        visible = "document.querySelectorAll('.plotly-graph-div')[1].data.map(line => line.visible)"
        assert page.evaluate(visible) == [True, False]
        assert not page.get_by_label("FedAvg + FedDecorr").is_checked()
        assert page.evaluate(RANGE) == zoomed
        assert page.evaluate("window.loadedOnce")
        first.close()
        second.close()


def test_it_does_not_scroll_sideways(browser: Browser, done: Path, tmp_path: Path) -> None:
    """Nor with a name of one long word, and a folder that cannot be read."""
    copytree(done, tmp_path / "runs" / ("a-name" * 20))
    copytree(done, tmp_path / "runs" / ("broken" * 20))
    (tmp_path / "runs" / ("broken" * 20) / "rounds.jsonl").write_text("")
    with served(tmp_path) as place, faultless_page(browser) as page:
        page.goto(place)
        page.wait_for_function(DRAWN)
        assert page.locator(".plotly-graph-div").count() > 0
        assert sideways(page) == []


def test_when_the_command_has_ended_the_page_says_so(browser: Browser, done: Path) -> None:
    with closing(browser.new_context()) as context:
        page = context.new_page()
        page.set_default_timeout(180_000)
        with served(done) as place:
            page.goto(place)
            page.get_by_text("Live: looked at").wait_for()
        page.get_by_text("Not live any more").wait_for()


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


def ask(place: str, path: str = "/", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(place.removeprefix("http://").rstrip("/"))
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    with closing(connection), connection.getresponse() as found:
        return Answer(found.status, dict(found.getheaders()), found.read())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", ""])
def test_who_calls_it_by_another_name_gets_nothing(host: str, done: Path) -> None:
    """A stranger's site whose name is made to lead here (DNS rebinding) is a stranger still."""
    with served(done) as place:
        port = place.rstrip("/").rpartition(":")[2]
        refused = ask(place, Host=host.format(port=port))
        assert refused.status == 403
        assert b"plotly" not in refused.content
        assert ask(place, Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/done",
        "/done/experiment.json",
        "/weights.safetensors",
    ],
)
def test_no_file_is_served_neither_of_the_run_nor_from_outside(path: str, done: Path) -> None:
    with served(done) as place:
        assert ask(place, path).status == 404


def test_nothing_is_sent_twice(done: Path) -> None:
    with served(done) as place:
        first = ask(place)
        mark = first.headers["ETag"]
        assert "frame-ancestors 'none'" in first.headers["Content-Security-Policy"]
        assert ask(place, If_None_Match=mark).status == 304


def test_looking_writes_nothing(done: Path) -> None:
    def files() -> dict[str, int]:
        return {str(file): file.stat().st_mtime_ns for file in [done, *done.rglob("*")]}

    before = files()
    LivePage([done.parent]).current()
    assert files() == before


def test_a_broken_run_keeps_nobody_from_seeing_the_others(tmp_path: Path) -> None:
    for name in ("broken", "whole"):
        list(run(*small("rounds=1"), tmp_path / name))
    (tmp_path / "broken" / "rounds.jsonl").write_text("")
    page = LivePage([tmp_path]).current()[1]
    assert "1 rounds are finished, but it has 0 whole lines" in page
    assert '<td>whole</td><td class="number">1 of 1</td>' in page
    assert "<h2>Accuracy per round</h2>" in page


def test_a_sweep_is_shown_in_the_order_of_its_plan_by_names_that_people_know(tmp_path: Path) -> None:
    """Runs that wait are there, too; seeds under way are a band as far as they have come; nothing has a digest."""
    settings = {**small("rounds=2").experiment.to_dict(), "rounds": 2}
    sweep = SweepStudy("s", settings, Sweep(over={"regularizers": ["feddecorr", "none"]}))
    arms = sweep.arms("own", 2)
    jobs = plan(arms, tmp_path / "runs")
    write_plan(tmp_path, [PlannedRun(job.digest, job.name, job.options.rounds) for job in jobs])
    for arm, job, rounds in zip(arms[1:], jobs[1:], (2, 1, 1), strict=True):
        records = run(arm.experiment, arm.options, job.path)
        list(islice(records, rounds))
        records.close()
    page = LivePage([tmp_path / "runs"]).current()[1]
    rows = re.findall(r'<tr><td>(.*?, seed \d)</td><td class="number">(\d of \d)</td>', page)
    assert rows == [
        ("FedAvg + FedDecorr, seed 0", "0 of 2"),
        ("FedAvg, seed 0", "2 of 2"),
        ("FedAvg + FedDecorr, seed 1", "1 of 2"),
        ("FedAvg, seed 1", "1 of 2"),
    ]
    assert not any(job.digest in page for job in jobs)
    assert re.findall(r'data-run="(.*?)"', page) == ["FedAvg", "FedAvg + FedDecorr"]
    accuracy = page.split("<h2>Accuracy per round</h2>")[1].split("</section>")[0]
    (mean,) = [
        line
        for line in json.loads(accuracy.split('json">')[1].split("</script>")[0])["data"]
        if line.get("name") == "FedAvg"
    ]
    assert mean["x"] == [1, 2]


@pytest.mark.parametrize("size", [None, 1 << 42])
def test_a_plan_that_cannot_be_read_keeps_nobody_from_seeing_the_runs(size: int | None, done: Path) -> None:
    """Neither a broken one, nor one of 4 TiB of zeros."""
    plan = done.parent / "plan.json"
    plan.write_text("{}")
    os.truncate(plan, size or 2)
    page = LivePage([done.parent]).current()[1]
    plan.unlink()
    assert "is no plan of runs that can be read" in page
    assert '<td>done</td><td class="number">1 of 1</td>' in page


def test_a_folder_that_is_not_there_is_refused(feddecorr: CommandLine, tmp_path: Path) -> None:
    refused = feddecorr("watch", tmp_path / "nowhere")
    assert refused.code == 2
    assert "is not a directory" in refused.err


def test_a_port_that_is_taken_is_refused(done: Path) -> None:
    with open_server(LivePage([done]).current) as server, pytest.raises(UserError, match="cannot be had"):
        open_server(LivePage([done]).current, server.server_port)


def test_the_command_says_where_and_ends_well_by_ctrl_c(done: Path) -> None:
    """It is bound to the loopback alone."""
    command = [sys.executable, "-m", "feddecorr", "watch", str(done), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = "".join(process.stdout.readline() for _ in range(3))
        place = json.loads(said)["address"]
        assert place.startswith(f"http://{LOOPBACK}:")
        assert ask(place).status == 200
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
