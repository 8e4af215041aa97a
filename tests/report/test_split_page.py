from pathlib import Path

import numpy as np

from feddecorr.partition.heterogeneity import MEANINGS, Heterogeneity, LabelCounts
from feddecorr.partition.split import Parts
from feddecorr.report.figures import SHOWN_CLIENTS
from feddecorr.report.runs_page import client_rows, summary_rows, write_split_page

COUNTS = np.array([[4, 0, 0], [2, 2, 0]])


def test_clients_and_summary_are_reported_in_rows() -> None:
    """A row a client; a row a number, each with what it is."""
    found = Heterogeneity.of(COUNTS)
    assert client_rows(found) == [["0", "4", "1", "1.00", "0.25"], ["1", "4", "2", "2.00", "0.25"]]
    rows = {name: (value, meaning) for name, value, meaning in summary_rows(found)}
    assert rows["examples"] == ("8", MEANINGS["examples"])
    assert rows["mean effective classes"] == ("1.500", MEANINGS["mean_effective_classes"])


def test_every_number_has_a_meaning_and_every_meaning_a_number() -> None:
    assert MEANINGS.keys() == Heterogeneity.of(COUNTS).summary().keys()


def test_the_page_holds_every_class_and_number(tmp_path: Path) -> None:
    """Names of classes may hold anything."""
    counts = LabelCounts.of(Parts.of([[0, 1, 2, 3], [4, 5, 6, 7]]), np.array([0, 0, 0, 0, 0, 0, 1, 1]), 3)
    assert np.array_equal(counts.table(), COUNTS)
    write_split_page(tmp_path / "a.html", Heterogeneity.of(COUNTS), counts, ["cat", "</script>", "dog"])
    page = (tmp_path / "a.html").read_text()
    assert 'class="plotly-graph-div"' in page
    assert all(meaning.replace("'", "&#39;") in page for meaning in MEANINGS.values())
    assert '"</script>"' not in page


def test_of_very_many_clients_the_first_are_shown(tmp_path: Path) -> None:
    """A page of a million rows would open nowhere; it says which clients it shows."""
    clients = 3 * SHOWN_CLIENTS
    counts = LabelCounts.of(Parts.held_by(np.arange(clients), clients), np.zeros(clients, np.int64), 2)
    found = Heterogeneity.of(counts.table())
    assert len(client_rows(found)) == SHOWN_CLIENTS
    write_split_page(tmp_path / "a.html", found, counts, ["cat", "dog"])
    assert f"Of {clients} clients, the first {SHOWN_CLIENTS} are shown." in (tmp_path / "a.html").read_text()
