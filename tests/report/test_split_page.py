from pathlib import Path

import numpy as np

from feddecorr.partition.heterogeneity import MEANINGS, Heterogeneity
from feddecorr.report.split_page import client_rows, summary_rows, write_split_page

COUNTS = np.array([[4, 0, 0], [2, 2, 0]])


def test_clients_and_summary_are_told_in_rows() -> None:
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
    write_split_page(tmp_path / "a.html", Heterogeneity.of(COUNTS), COUNTS, ["cat", "</script>", "dog"])
    page = (tmp_path / "a.html").read_text()
    assert "Plotly.newPlot" in page
    assert all(meaning.replace("'", "&#39;") in page for meaning in MEANINGS.values())
    assert '"</script>"' not in page
