import json
import math
from dataclasses import replace

import pytest
from made_up import over_seeds, summary

from feddecorr.report.run_figures import DRAWN, draw_checklist
from feddecorr.results.checklist import COLUMNS, checklist_of_runs, rounds_to, tables, to_latex, to_markdown
from feddecorr.results.summary import Summary


def with_costs(run: Summary, flops: float) -> Summary:
    """Return the run with what only some rounds and runs record."""
    lines = [{**line, "sent": 4000, "received": 2000.0} for line in run.rounds]
    lines[-1] = {**lines[-1], "flops": flops, "model": {**lines[-1]["model"], "nc1_variability": 0.5}}
    return replace(run, rounds=lines)


def runs() -> list[Summary]:
    """Return FedAvg without and with FedDecorr, three seeds of each, and one of MOON."""
    return [
        *(with_costs(run, 2e9) for run in over_seeds("rounds=20", [0.4, 0.5, 0.6], rank=4.0, local_rank=2.0)),
        *over_seeds("rounds=20 regularizers=feddecorr", [0.45, 0.5, 0.7], rank=8.0),
        *over_seeds("rounds=20 method=moon", [0.3]),
    ]


def test_arms_are_rows_and_differences_are_paired_by_seed() -> None:
    rows = {row.cell.name(): row for row in checklist_of_runs(runs())}
    assert list(rows) == ["FedAvg", "FedAvg + FedDecorr", "MOON (μ = 1.0)"]
    plain, decorrelated, moon = rows.values()
    assert decorrelated.base is plain.cell
    assert (plain.base, moon.base) == (None, None)
    for name in ("last", "last_ten", "best", "smoothed"):
        difference = decorrelated.differences[name]
        assert list(difference.values.values()) == pytest.approx([0.05, 0.0, 0.1])
        assert difference.wins == 2
    assert plain.samples["effective_rank"].mean == 4.0
    assert plain.samples["local_effective_rank"].mean == 2.0
    assert plain.samples["flops"].mean == 2e9
    assert decorrelated.samples["flops"].values == {}
    assert decorrelated.text("flops") == "–"


def test_the_target_is_what_the_first_arm_ends_with() -> None:
    """Shared by all methods on the same split; seeds that never reach it are counted as such."""
    rows = checklist_of_runs(runs())
    assert {row.target for row in rows} == {0.5}
    assert rows[0].samples["rounds_to_target"].values == {1: 1, 2: 1}
    assert rows[0].text("rounds_to_target") == "1.0 ± 0.0 (2 of 3)"
    assert rows[2].text("rounds_to_target") == "–"
    assert {row.target for row in checklist_of_runs(runs(), target=0.65)} == {0.65}


def test_rounds_to_a_target_are_those_of_the_smoothed_accuracy() -> None:
    """One lucky round does not count."""
    run = summary("rounds=20", accuracy=[0.1] * 9 + [0.9] + [0.1] * 4 + [0.5] * 6)
    assert rounds_to(run, 0.1) == 1
    assert rounds_to(run, 0.5) is None
    reached = rounds_to(run, 0.3)
    assert reached is not None
    assert reached > 14


def test_the_three_tables_are_whole_in_every_form() -> None:
    found = tables(checklist_of_runs(runs()))
    assert [len(table.rows) for table in found] == [4, 4, 4]
    assert all(len(row) == len(table.headings) for table in found for row in table.rows)
    latex = to_latex(found)
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 3
    assert r"50.00 $\pm$ 10.00" in latex
    for line in latex.splitlines():
        assert not line.endswith(r"\\") or line.count(" & ") in {len(table.headings) - 1 for table in found}
    assert to_markdown(found).count("## ") == 3
    document = [row.to_dict() for row in checklist_of_runs(runs())]
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document[1]["differences"]["last"]["mean"] == pytest.approx(0.05)
    assert set(document[0]["values"]) == COLUMNS.keys() - {"target"}


def test_the_picture_has_a_panel_for_each_column_that_is_known() -> None:
    picture = draw_checklist(checklist_of_runs(runs()), "regularizers")
    assert [panel.title for panel in picture.panels] == [COLUMNS[name].heading for name in DRAWN]
    first = picture.panels[0]
    assert first.names == ((), ["FedAvg", "MOON (μ = 1.0)"])
    assert {series.name: list(series.x) for series in first.series} == {
        "none": pytest.approx([50, 30]),
        "FedDecorr": pytest.approx([55]),
    }


def test_runs_that_were_never_evaluated_have_a_checklist_of_their_cost() -> None:
    run = summary("rounds=20")
    blind = replace(run, rounds=[{**line, "model": None} for line in run.rounds])
    (row,) = checklist_of_runs([blind])
    assert row.text("last") == "–"
    assert row.text("seconds") == "1.00"
    assert row.target == math.inf
    assert row.to_dict()["target"] is None


def test_no_run_is_finished() -> None:
    run = summary("rounds=20")
    assert checklist_of_runs([replace(run, rounds=run.rounds[:3])]) == []
