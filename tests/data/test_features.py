import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.data.features import diagnose_features
from feddecorr.errors import UserError


def draw() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    stream = np.random.default_rng(0)
    return stream.normal(size=(50, 4)), stream.integers(0, 3, 50)


def look(path: Path, labels: Path | None = None) -> Diagnosis:
    return next(diagnose_features([(path, labels)]))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    z, y = draw()
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "z.npz", z)
    np.savez(tmp_path / "both.npz", features=z, labels=y)
    save_file({"features": torch.from_numpy(z), "labels": torch.from_numpy(y)}, tmp_path / "both.safetensors")
    np.savetxt(tmp_path / "z.csv", z, delimiter=",", fmt="%.18g")
    np.savetxt(tmp_path / "named.csv", z, delimiter=",", fmt="%.18g", header="a,b,c,d", comments="")
    np.savetxt(tmp_path / "y.csv", y, fmt="%d")
    (tmp_path / "words.csv").write_text("\n".join("abc"[label] for label in y))
    columns = pd.DataFrame(z, columns=list("abcd"))
    columns.to_parquet(tmp_path / "z.parquet")
    columns.assign(label=y).to_parquet(tmp_path / "both.parquet")
    columns.assign(Class=["abc"[label] for label in y]).to_parquet(tmp_path / "named.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        ("z.npz", "y.npy"),
        ("both.npz", None),
        ("both.safetensors", None),
        ("z.csv", "y.csv"),
        ("named.csv", "words.csv"),
        ("z.parquet", "y.npy"),
        ("both.parquet", None),
        ("named.parquet", None),
    ],
)
def test_every_format_says_the_same(files: Path, features: str, labels: str | None) -> None:
    """Numbers are numbers, with labels of their own file, from their own column, or by names."""
    expected = look(files / "z.npy", files / "y.npy").to_dict()
    found = look(files / features, None if labels is None else files / labels).to_dict()
    assert found.pop("singular_values") == pytest.approx(expected.pop("singular_values"))
    assert found["nc1_variability"] == pytest.approx(expected["nc1_variability"])
    assert found["per_class_samples"] == expected["per_class_samples"]


def test_files_of_the_same_samples_are_compared(files: Path, tmp_path: Path) -> None:
    """With the first; features turned and scaled are alike to one."""
    z, _ = draw()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    np.save(tmp_path / "turned.npy", 2 * z @ turn)
    np.save(tmp_path / "fewer.npy", z[:30])
    first, turned, fewer = diagnose_features(
        [(files / "z.npy", None), (tmp_path / "turned.npy", None), (tmp_path / "fewer.npy", None)]
    )
    assert first.linear_cka is None
    assert turned.linear_cka == pytest.approx(1)
    assert fewer.linear_cka is None
    assert fewer.reference == "z.npy"


def test_integers_and_half_precision_and_feature_maps_are_taken(tmp_path: Path) -> None:
    """Whatever numbers a framework writes; maps (n, d, h, w) are averaged over their positions."""
    z, _ = draw()
    np.save(tmp_path / "whole.npy", (10 * z).astype(np.int16))
    np.save(tmp_path / "half.npy", z.astype(np.float16))
    np.save(tmp_path / "maps.npy", np.stack([z + 1, z - 1], 2)[..., None])
    assert look(tmp_path / "whole.npy").dimensions == 4
    assert look(tmp_path / "half.npy").effective_rank == pytest.approx(
        look(tmp_path / "maps.npy").effective_rank, rel=1e-2
    )


def test_bad_files_are_named(files: Path, tmp_path: Path) -> None:
    """What is not there, of no known format, broken, of several arrays, of wrong shapes or lengths."""
    z, y = draw()
    np.savez(tmp_path / "two.npz", a=z, b=z)
    np.save(tmp_path / "flat.npy", z[:, 0])
    np.save(tmp_path / "short.npy", y[:40])
    np.save(tmp_path / "parts.npy", y + 0.5)
    np.save(tmp_path / "one.npy", z[:1])
    np.save(tmp_path / "hole.npy", np.where(z > 2, np.nan, z))
    (tmp_path / "broken.npy").write_bytes(b"nothing")
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    (tmp_path / "z.pickle").write_bytes(b"nothing")
    table = pd.DataFrame(z, columns=list("abcd"))
    table.assign(name="a").to_parquet(tmp_path / "names.parquet")
    table.assign(label=y, y=y).to_parquet(tmp_path / "twice.parquet")
    for name, message in {
        "none.npy": "no file",
        "z.pickle": "end in .npy, .npz, .safetensors, .csv, .parquet",
        "broken.parquet": "is not a readable table",
        "names.parquet": "the column 'name' holds no numbers",
        "twice.parquet": "several columns could be the labels: label, y",
        "broken.npy": "cannot be read",
        "two.npz": "none named 'features': a, b",
        "flat.npy": r"not \(50,\)",
        "one.npy": "at least two",
        "hole.npy": r"hole\.npy: sample \d+ holds NaN or infinity",
    }.items():
        with pytest.raises(UserError, match=message):
            look(tmp_path / name)
    with pytest.raises(UserError, match="50 samples, but there are 40 labels"):
        look(files / "z.npy", tmp_path / "short.npy")
    with pytest.raises(UserError, match="whole numbers"):
        look(files / "z.npy", tmp_path / "parts.npy")


def test_what_has_no_measure_is_refused_by_file(tmp_path: Path) -> None:
    """Nothing at all, and numbers whose fourth powers are infinite; smaller ones are measured, and written as JSON."""
    z, y = draw()
    np.save(tmp_path / "y.npy", y)
    for array, message in {
        "none": (np.zeros((0, 3)), r"not \(0, 3\)"),
        "narrow": (np.zeros((5, 0)), r"not \(5, 0\)"),
        "no position": (np.zeros((5, 3, 0)), r"not \(5, 3, 0\)"),
        "one": (z[:1], "at least two"),
        "1e80": (z * 1e80, "too large"),
        "1e4000": (z.astype(np.longdouble) * np.longdouble("1e4000"), "sample 1 holds NaN or infinity")
        if np.finfo(np.longdouble).maxexp > 2000
        else (z * np.inf, "sample 1 holds NaN or infinity"),
    }.values():
        np.save(tmp_path / "z.npy", array)
        with pytest.raises(UserError, match=rf"z\.npy.*{message}"):
            look(tmp_path / "z.npy")
    for factor in (1e70, 1e-70, 1e-150, 1e-170, 1e-310):
        np.save(tmp_path / "z.npy", z * factor)
        json.dumps(look(tmp_path / "z.npy", tmp_path / "y.npy").to_dict(), allow_nan=False)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "bfloat16", "float16"])
def test_short_floats_are_taken(kind: str, tmp_path: Path) -> None:
    z = torch.from_numpy(np.round(draw()[0]))  # which all of them hold
    save_file({"features": z}, tmp_path / "z.safetensors")
    save_file({"features": z.to(getattr(torch, kind))}, tmp_path / "short.safetensors")
    assert look(tmp_path / "short.safetensors").effective_rank == look(tmp_path / "z.safetensors").effective_rank


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i2", "<f8", "float128" if hasattr(np, "float128") else "f8"])
def test_numbers_of_other_machines_say_the_same(kind: str, tmp_path: Path) -> None:
    """Of the other byte order, and longer than PyTorch has them."""
    z, y = draw()
    whole = np.round(100 * z)
    np.save(tmp_path / "z.npy", whole)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "other.npy", whole.astype(kind))
    np.save(tmp_path / "labels.npy", y.astype(kind))
    expected = look(tmp_path / "z.npy", tmp_path / "y.npy").to_dict()
    found = look(tmp_path / "other.npy", tmp_path / "labels.npy").to_dict()
    assert found["singular_values"] == pytest.approx(expected["singular_values"])
    assert found["per_class_samples"] == expected["per_class_samples"]


def test_large_samples_are_read_a_few_at_a_time_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, y = draw()
    np.savez(tmp_path / "a.npz", features=z, labels=y)
    np.save(tmp_path / "b.npy", np.stack([z, -z, z], axis=2))
    files = [(tmp_path / "a.npz", None), (tmp_path / "b.npy", None)]
    whole = [found.to_dict() for found in diagnose_features(files)]
    monkeypatch.setattr("feddecorr.data.features.MEMBER", 7 * z[0].nbytes)
    assert [found.to_dict() for found in diagnose_features(files)] == whole
