from pathlib import Path

import numpy as np
import pytest

from feddecorr.data.features import READERS, read_features
from feddecorr.errors import UserError

read_csv = READERS[".csv"]


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


REFUSED = {
    "an index with an empty heading": (
        (",a,b", "0,1.5,2", "1,3,4"),
        "column 1 has no name: write the file wit",
    ),
    "an index without headings": (("0,1.5,2", "1,3,4", "2,1,1"), "column 1 counts the rows: write the file without"),
    "columns that are counted": (("0,1,2", "5,3,4", "2,7,1"), "line 1: it counts the columns"),
    "an empty cell": (("a,b", "1,2", "3,"), r"line 3: column 2 \('b'\) is empty"),
    "an empty cell without headings": (("1,2", ",4"), "line 2: column 1 is empty"),
    "a word among numbers": (("a,b", "1,2", "3,n/a"), r"line 3: column 2 \('b'\) holds 'n/a', which is not a number"),
    "a cell too few": (("a,b,c", "1,2,3", "3,4"), "line 3: 2 cells, where the first line has 3"),
    "two columns of labels": (("a,label,class", "1,2,3"), "several columns could be the labels: label, class"),
    "an index with a heading": (("id,a", "7,1.5", "9,3", "4,1"), r"column 1 \('id'\) numbers the rows"),
    "an index with any heading": (("n,a", "2,1.5", "1,3", "3,1"), "column 1 counts the rows"),
    "labels or the second of two": (("x,y", "1,2", "3,4"), "the column 'y' could be the labels or belong to 'x'"),
    "a heading or a class": (("species", "cat", "dog", "cat"), "line 1: 'species' could be a heading or a class with"),
    "other separators": (("a;b", "1;2", "3;4"), "separated by commas, not by a semicolon"),
    "tabs": (("1\t2", "3\t4"), "separated by commas, not by a tab"),
    "an infinite number": (
        ("a,b", "1,2", "3,inf"),
        r"line 3: column 2 \('b'\) holds 'inf', which is not a finite number",
    ),
    "no number": (("1,2", "nan,3"), "line 2: column 1 holds 'nan', which is not a finite number"),
    "an empty label": (("a,label", "1,cat", "3,"), "the label of row 2 is missing"),
    "a heading alone": (("a,b",), "there is nothing below the heading"),
    "nothing": (("",), "is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_mean_two_things_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    lines, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        read_csv(write(tmp_path / "z.csv", *lines))


def test_a_column_of_labels_is_no_feature(tmp_path: Path) -> None:
    numbers = read_features(write(tmp_path / "a.csv", "a,b,Label", "1,2,0", "3,4,1", "5,6,0"))
    words = read_features(write(tmp_path / "b.csv", '"x, y",class,b', "1,cat,2", "3,dog,4", "5,cat,6"))
    assert numbers.array.tolist() == words.array.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert numbers.labels is not None
    assert words.labels is not None
    assert numbers.labels.tolist() == words.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("heading", ["label", "target", "y", " Class ", "\ufefflabel"])
@pytest.mark.parametrize("values", [("0", "1", "1"), ("cat", "dog", "dog")])
def test_a_heading_is_no_label(tmp_path: Path, heading: str, values: tuple[str, ...]) -> None:
    np.save(tmp_path / "z.npy", np.ones((3, 2)))
    found = read_features(tmp_path / "z.npy", write(tmp_path / "y.csv", heading, *values))
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 1]


def test_the_marks_of_other_writers_are_no_part_of_a_heading(tmp_path: Path) -> None:
    """NumPy begins it with #, Excel the file with a byte order mark."""
    for first in ("# label,a", "\ufefflabel,a"):
        table = read_csv(write(tmp_path / "a.csv", first, "0,1.5", "1,2"))
        assert (table["features"].tolist(), table["labels"].tolist()) == ([[1.5], [2]], [0, 1])


def test_one_column_of_numbers_is_taken_with_and_without_a_heading(tmp_path: Path) -> None:
    assert read_csv(write(tmp_path / "a.csv", "1.5", "2", "4"))["features"].tolist() == [[1.5], [2], [4]]
    assert read_csv(write(tmp_path / "b.csv", "labels", "1", "0"))["labels"].tolist() == [1, 0]
    assert read_csv(write(tmp_path / "c.csv", "species", "1", "0", "0"))["features"].tolist() == [[1], [0], [0]]
    assert read_csv(write(tmp_path / "d.csv", "cat", "dog", "cat"))["labels"].tolist() == ["cat", "dog", "cat"]
