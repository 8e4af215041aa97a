from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from small import small

from feddecorr.data.hugging_face import HuggingFace
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import run

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3)).astype(np.uint8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")


def made(count: int = 20, mode: str = "RGB") -> datasets.Dataset:
    features = datasets.Features({"img": datasets.Image(), "kind": datasets.ClassLabel(names=["cat", "dog"])})
    pictures = [Image.fromarray(pixels).convert(mode) for pixels in PIXELS[:count]]
    return datasets.Dataset.from_dict({"img": pictures, "kind": [place % 2 for place in range(count)]}, features)


def test_a_saved_set_with_splits_is_read_by_what_its_columns_are(tmp_path: Path) -> None:
    datasets.DatasetDict(train=made(), test=made(6)).save_to_disk(str(tmp_path / "set"))
    dataset = HuggingFace(path=tmp_path / "set").load()
    np.testing.assert_array_equal(dataset.train.pixels.numpy(), PIXELS)
    assert dataset.test.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert dataset.classes == ("cat", "dog")


def test_without_a_test_split_every_fifth_of_a_class_is_one(tmp_path: Path) -> None:
    made().save_to_disk(str(tmp_path / "set"))
    dataset = HuggingFace(path=tmp_path / "set").load()
    assert (len(dataset.train), len(dataset.test)) == (16, 4)


def test_grey_pictures_have_one_channel_and_sizes_can_be_changed(tmp_path: Path) -> None:
    made(mode="L").save_to_disk(str(tmp_path / "set"))
    assert HuggingFace(path=tmp_path / "set", size=4).load().shape == (1, 4, 4)


def test_a_folder_that_the_library_reads_is_taken(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    made().to_parquet(str(tmp_path / "set" / "train.parquet"))
    dataset = HuggingFace(path=tmp_path / "set").load()
    assert len(dataset.train) == 16


def test_splits_of_a_folder_are_known_by_the_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "set" / "data").mkdir(parents=True)
    made(12).to_parquet(str(tmp_path / "set" / "data" / "train-00000-of-00002.parquet"))
    made(8).to_parquet(str(tmp_path / "set" / "data" / "train-00001-of-00002.parquet"))
    made(6).to_parquet(str(tmp_path / "set" / "data" / "test-00000-of-00001.parquet"))
    dataset = HuggingFace(path=tmp_path / "set").load()
    np.testing.assert_array_equal(dataset.train.pixels.numpy(), np.concatenate([PIXELS[:12], PIXELS[:8]]))
    np.testing.assert_array_equal(dataset.test.pixels.numpy(), PIXELS[:6])
    assert dataset.classes == ("cat", "dog")


def test_a_set_that_was_fetched_before_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Hugging Face's library keeps it, which the library itself is asked for here."""
    (tmp_path / "Pets").mkdir()
    made().to_parquet(str(tmp_path / "Pets" / "train.parquet"))
    datasets.load_dataset(str(tmp_path / "Pets"), cache_dir=str(tmp_path / "hf"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    dataset = HuggingFace(path=Path("pets")).load()
    assert (len(dataset.train), len(dataset.test)) == (16, 4)


def test_pixels_are_decoded_anew_when_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    made().to_parquet(str(tmp_path / "set" / "train.parquet"))
    first = HuggingFace(path=tmp_path / "set").load()
    made(15).to_parquet(str(tmp_path / "set" / "train.parquet"))
    assert len(HuggingFace(path=tmp_path / "set").load().train) < len(first.train)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_names_in_what_was_saved_lead_nowhere_else(tmp_path: Path) -> None:
    made().save_to_disk(str(tmp_path / "set"))
    state = tmp_path / "set" / "state.json"
    state.write_text(state.read_text().replace("data-00000", "../other/data-00000"))
    with pytest.raises(UserError, match=r"state\.json: '\.\./other/data-00000.*' is not the name of a file next to it"):
        HuggingFace(path=tmp_path / "set").load()


def test_packed_rows_are_the_same_data(tmp_path: Path) -> None:
    made().save_to_disk(str(tmp_path / "set"))
    (file,) = (tmp_path / "set").glob("*.arrow")
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    with pa.ipc.new_stream(str(file), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    dataset = HuggingFace(path=tmp_path / "set").load()
    np.testing.assert_array_equal(dataset.train.pixels.numpy()[:4], PIXELS[:4])
    assert len(dataset.train) == 16


def test_rows_that_point_anywhere_are_refused(tmp_path: Path) -> None:
    """Offsets beyond the file would be read from whatever lies there."""
    made().save_to_disk(str(tmp_path / "set"))
    (file,) = (tmp_path / "set").glob("*.arrow")
    content = bytearray(file.read_bytes())
    place = content.index(np.cumsum([0, *[len(row["bytes"]) for row in stored(file)]]).astype("<i4").tobytes()[:16])
    content[place + 4 : place + 8] = b"\xff\xff\xff\x7f"
    file.write_bytes(content)
    with pytest.raises(UserError, match="is not a readable table"):
        HuggingFace(path=tmp_path / "set").load()


def stored(file: Path) -> list[dict[str, bytes]]:
    found: list[dict[str, bytes]] = pa.ipc.open_stream(file.read_bytes()).read_all()["img"].to_pylist()
    return found


def test_a_federation_learns_it(tmp_path: Path) -> None:
    made().save_to_disk(str(tmp_path / "set"))
    words = (f"data=hf:{tmp_path / 'set'}", "clients=2", "partition.minimum=2", "rounds=1")
    (record,) = run(*small(*words), tmp_path / "run")
    assert record.accuracy is not None


def test_what_is_not_there_is_reported(tmp_path: Path) -> None:
    made().save_to_disk(str(tmp_path / "set"))
    with pytest.raises(UserError, match="no column 'image': did you mean 'img'"):
        HuggingFace(path=tmp_path / "set", image="image").load()
    with pytest.raises(UserError, match="there is no data set"):
        HuggingFace(path=Path("nobody/nothing-of-the-kind")).load()
    plain = datasets.Dataset.from_dict({"a": [1, 2], "label": [0, 1]})
    plain.save_to_disk(str(tmp_path / "plain"))
    with pytest.raises(UserError, match=r"0 columns hold images; name one by data\.image"):
        HuggingFace(path=tmp_path / "plain").load()
