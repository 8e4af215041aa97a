from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small import small

from feddecorr.data.features import read_features
from feddecorr.data.tables import TableFile
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import run

ROWS = 40


def table() -> pd.DataFrame:
    """Return two features of very different scale, and labels that follow from the first."""
    stream = np.random.default_rng(0)
    large, small_ = 1000 + 50 * stream.normal(size=ROWS), stream.normal(size=ROWS) / 100
    return pd.DataFrame({"large": large, "small": small_, "label": np.where(large > 1000, "yes", "no")})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table().to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def test_features_are_standardized_one_by_one(path: Path) -> None:
    dataset = TableFile(path=path).load()
    assert dataset.shape == (2, 1, 1)
    assert dataset.classes == ("no", "yes")
    floats = dataset.normalize(dataset.train.pixels)[:, :, 0, 0]
    torch.testing.assert_close(floats.mean(0), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(floats.std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)


def test_text_that_is_none_is_refused_where_it_is_read(tmp_path: Path) -> None:
    """Parquet keeps letters as they are, and decodes them late."""
    broken = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"label": broken, "x": [1.0, 2.5]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="is not a readable table"):
        TableFile(path=tmp_path / "a.parquet").load()


@pytest.mark.parametrize("labels", [["no", "yes"], [7, 10], [0.5, 1.0], [False, True]])
def test_csv_and_parquet_are_the_same_data(tmp_path: Path, labels: list[object]) -> None:
    """Whatever kind of values the labels are; truth values are numbers, too."""
    rows = table().assign(label=labels * (ROWS // 2), flag=[True, False, False, True] * (ROWS // 4))
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_parquet(tmp_path / "a.parquet")
    csv, parquet = (TableFile(path=tmp_path / name).load() for name in ("a.csv", "a.parquet"))
    assert csv.sha256 == parquet.sha256
    assert csv.classes == parquet.classes == tuple(map(str, labels))


def test_a_column_says_what_is_for_testing(tmp_path: Path) -> None:
    rows = table().assign(part=["test" if place < 7 else "train" for place in range(ROWS)], kind=range(ROWS))
    rows.to_csv(tmp_path / "a.csv", index=False)
    dataset = TableFile(path=tmp_path / "a.csv", split="part", label="kind").load
    with pytest.raises(UserError, match=r"column 3 \('label'\) holds '(yes|no)', which is not a number"):
        dataset()
    found = TableFile(path=tmp_path / "a.csv", split="part").load()
    assert (len(found.train), len(found.test)) == (33, 7)


def test_classes_that_are_numbers_are_in_their_order(tmp_path: Path) -> None:
    table().assign(label=[10, 9, 2, 1] * 10).to_csv(tmp_path / "a.csv", index=False)
    assert TableFile(path=tmp_path / "a.csv").load().classes == ("1", "2", "9", "10")


def test_a_federation_learns_a_table(path: Path) -> None:
    words = (f"data=table:{path}", "model=mlp", "model.widths=[16]", "clients=2", "partition.minimum=2", "rounds=5")
    *_, last = run(*small(*words, "training.lr=0.1", "regularizers=feddecorr"))
    assert last.accuracy is not None
    assert last.accuracy > 0.7


def test_networks_for_images_and_augmentation_are_refused(path: Path) -> None:
    with pytest.raises(UserError, match="convnet is for images: text and tables of features are for model=mlp"):
        small(f"data=table:{path}")
    with pytest.raises(UserError, match="not for a table of features"):
        small(f"data=table:{path}", "model=mlp", "data.augment=flip")


ROWS_OF_TWO = [f"{number / 7:.3f},{number % 5},{'ab'[number % 2]}" for number in range(20)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b,label", *ROWS_OF_TWO, "1.5,2,"], "the label of row 21 is missing"),
        (["a,b,label", *ROWS_OF_TWO, "1.5,2,NA"], "the label of row 21 is missing"),
        (["a,b,label", *ROWS_OF_TWO, '1.5,2," "'], "the label of row 21 is missing"),
        (["a,b,label", *(row.replace("a", "inf").replace("b", "1") for row in ROWS_OF_TWO)], "the label of row 1 is"),
        (["label,b,label", *(f"{row[-1]}{row[5:]}" for row in ROWS_OF_TWO)], "several columns are called 'label'"),
        (["a,b,label", *(f"{row},7" for row in ROWS_OF_TWO)], "line 2: 4 cells, where the first line has 3"),
        (
            ["a,b,label", *(f"1e9,{row[6:]}" for row in ROWS_OF_TWO), "1000000003,1,a"],
            "'a' varies too little",
        ),
        (
            ["a,b,label", *(f"{n}e-44,{row[6:]}" for n, row in enumerate(ROWS_OF_TWO))],
            "'a' varies too little",
        ),
    ],
)
def test_what_would_be_learned_wrongly_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    """A missing label is no class, a second column of labels no feature, and what float32 rounds away no constant."""
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=message):
        TableFile(path=tmp_path / "a.csv").load()


@pytest.mark.parametrize("labels", [["a", None], [1, None], [1.5, float("nan")], [True, None], ["a", "  "]])
def test_a_missing_label_is_no_class_in_parquet(tmp_path: Path, labels: list[object]) -> None:
    pq.write_table(
        pa.table({"a": np.arange(20) / 7, "label": pa.array(labels * 10, from_pandas=True)}), tmp_path / "a.parquet"
    )
    with pytest.raises(UserError, match="the label of row 2 is missing"):
        TableFile(path=tmp_path / "a.parquet").load()
    with pytest.raises(UserError, match="the label of row 2 is missing"):
        read_features(tmp_path / "a.parquet")


def test_columns_of_parquet_that_say_two_things_are_refused(tmp_path: Path) -> None:
    x, labels = pa.array(np.arange(20) / 7), pa.array(["a", "b"] * 10)
    pq.write_table(pa.Table.from_arrays([x, labels, labels], names=["x", "label", "label"]), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="several columns are called 'label'"):
        TableFile(path=tmp_path / "a.parquet").load()
    table().sample(frac=1, random_state=0).to_parquet(tmp_path / "a.parquet")  # with its index
    with pytest.raises(UserError, match=r"\('__index_level_0__'\) numbers the rows"):
        TableFile(path=tmp_path / "a.parquet").load()


def test_a_large_constant_numbers_no_rows_and_keeps_its_place(tmp_path: Path) -> None:
    """Adding one to 10³⁰ changes nothing."""
    table().assign(large=1e30).to_csv(tmp_path / "a.csv", index=False)
    assert TableFile(path=tmp_path / "a.csv").load().std[0] == 1


def test_labels_are_the_same_with_spaces_around_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a, b, label\n" + "\n".join(ROWS_OF_TWO * 2).replace(",a\n", ", a \n", 5))
    assert TableFile(path=tmp_path / "a.csv").load().classes == ("a", "b")


def test_classes_of_one_number_have_one_order(tmp_path: Path) -> None:
    """In every process, whatever order its sets have."""
    names = ["01", "1", "1.0", "1e0", "001", "+1", "x"]
    table().assign(label=[names[number % 7] for number in range(ROWS)]).to_csv(tmp_path / "a.csv", index=False)
    assert TableFile(path=tmp_path / "a.csv").load().classes == (*sorted(names[:-1]), "x")


def test_what_cannot_be_read_is_reported(path: Path, tmp_path: Path) -> None:
    wrong = {
        "a word": table().assign(large="many"),
        "a gap": table().assign(large=[None, *range(ROWS - 1)]),
        "no label": table().drop(columns="label"),
        "no feature": table()[["label"]],
    }
    reasons = {
        "a word": r"line 2: column 1 \('large'\) holds 'many', which is not a number",
        "a gap": r"line 2: column 1 \('large'\) is empty",
        "no label": "no column label or class",
        "no feature": "no column is left",
    }
    for name, rows in wrong.items():
        rows.to_csv(tmp_path / "wrong.csv", index=False)
        with pytest.raises(UserError, match=reasons[name]):
            TableFile(path=tmp_path / "wrong.csv").load()
    table().to_csv(tmp_path / "indexed.csv")
    with pytest.raises(UserError, match="column 1 has no name"):
        TableFile(path=tmp_path / "indexed.csv").load()
    for index, said in {"id": r"column 1 \('id'\) numbers the rows", "number": "column 1 counts the rows"}.items():
        table().to_csv(tmp_path / "indexed.csv", index_label=index)
        with pytest.raises(UserError, match=said):
            TableFile(path=tmp_path / "indexed.csv").load()
    with pytest.raises(UserError, match=r"a table is a \.csv or \.parquet file"):
        TableFile(path=tmp_path / "a.xlsx").load()
    with pytest.raises(UserError, match="there is no file"):
        TableFile(path=tmp_path / "none.csv").load()
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not a readable table"):
        TableFile(path=tmp_path / "bad.parquet").load()
    with pytest.raises(UserError, match="is 'train' or 'test', not 'no'"):
        TableFile(path=path, split="label", label="small").load()


def test_labels_keep_their_digits_however_many_rows_there_are(tmp_path: Path) -> None:
    """Without a word among them they are numbers."""
    rows = "".join(f"{row / 7},0{row % 2}\n" for row in range(300_000))
    (tmp_path / "a.csv").write_text(f"x,label\n{rows}" + "0.5,x\n1.5,x\n2.5,x\n3.5,x\n4.5,x\n")
    assert TableFile(path=tmp_path / "a.csv").load().classes == ("00", "01", "x")


def test_a_file_of_zeros_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Sparse, it takes no room on the disk."""
    for start in (b"", b"x,label\n"):
        with (tmp_path / "a.csv").open("wb") as file:
            file.write(start)
            file.truncate(1 << 42)
        with pytest.raises(UserError, match="a line has more than"):
            TableFile(path=tmp_path / "a.csv").load()
        with pytest.raises(UserError, match="a line has more than"):
            read_features(tmp_path / "a.csv")
