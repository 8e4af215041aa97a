import pickle
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from copies import python2_pickle

from feddecorr.data.pickles import load_pickle
from feddecorr.errors import UserError

BATCH = {"labels": [3, 1, 2], "data": np.arange(12, dtype=np.uint8).reshape(3, 4), "batch_label": "one of one"}


def test_a_batch_of_python_2_is_read_as_pickle_and_numpy_would() -> None:
    content = python2_pickle(BATCH)
    with warnings.catch_warnings():  # numpy would rather not be called by its old name
        warnings.simplefilter("ignore")
        expected = pickle.loads(content, encoding="latin1")  # noqa: S301 - the oracle, on bytes made above
    found = load_pickle("batch", content)
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["data"], expected["data"])
    assert found["labels"] == expected["labels"]
    assert found["batch_label"] == "one of one"


class Harm:
    """Touches a file when it is unpickled by anything that trusts it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_pickle_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    content = pickle.dumps({"data": Harm(tmp_path / "harm")}, protocol)
    with pytest.raises(UserError, match="only plain arrays are allowed"):
        load_pickle("batch", content)
    assert not (tmp_path / "harm").exists()
    pickle.loads(content)  # noqa: S301 - shows that the harm was real
    assert (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"os\nsystem",
        b"numpy\nload",
        b"numpy\nsave",
        b"_codecs\nencode",
        b"numpy.core.multiarray\nscalar",
    ],
)
def test_no_other_name_is_found(name: bytes) -> None:
    with pytest.raises(UserError, match="only plain arrays are allowed"):
        load_pickle("batch", b"\x80\x02}(U\x01ac" + name + b"\nu.")


@pytest.mark.parametrize(
    "content",
    [
        python2_pickle([1, 2]),
        python2_pickle({"data": np.array([1.5])}),
        python2_pickle({"data": np.arange(4, dtype=np.uint8)}).replace(b"J\x04\x00\x00\x00t", b"J\x05\x00\x00\x00t"),
        b"\x80\x02}(U\x01acnumpy\nndarray\n(J\x00\x00\x00\x7ftRu.",
        b"\x80\x02}(U\x01acnumpy.core.multiarray\n_reconstruct\n}(U\x01xJ\x01\x00\x00\x00ubu.",
        b"\x80\x02}(U\x01acnumpy\nndarray\n}(U\x01xJ\x01\x00\x00\x00ubu.",
        b"",
        b"not a pickle",
    ],
    ids=["a list", "floats", "wrong shape", "huge array", "state of a function", "state of a class", "empty", "text"],
)
def test_whatever_is_no_dictionary_of_byte_arrays_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(UserError, match="data_batch_1: not a pickle of a data set"):
        load_pickle("data_batch_1", content)


BOMBS = {
    "a place with a large number": b"\x80\x02}r\xff\xff\xff\xefU\x01aK\x01s.",
    "a tuple that holds itself often": b"\x80\x02}K\x01q\x00" + b"h\x00h\x00\x86q\x00" * 90 + b"K\x01s.",
    "a list in itself": b"\x80\x02}U\x01a]q\x00h\x00as.",
    "a copy of the last value": b"\x80\x02}(" + b"U\x01a2" * 9 + b"u.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_takes_no_more_than_it_is_long(name: str) -> None:
    """The first takes 64 GB of Python's unpickler, the second would never end there."""
    tracemalloc.start()
    try:
        if name == "a place with a large number":
            assert load_pickle("batch", BOMBS[name]) == {"a": 1}
        else:
            with pytest.raises(UserError, match="not a pickle of a data set"):
                load_pickle("batch", BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_batch_of_python_3_is_read_too() -> None:
    content = pickle.dumps({**BATCH, "more": BATCH["data"]}, 4)
    found = load_pickle("batch", content)
    np.testing.assert_array_equal(found["data"], BATCH["data"])
    np.testing.assert_array_equal(found["more"], BATCH["data"])


def test_a_cut_off_pickle_is_refused_wherever_it_is_cut() -> None:
    content = python2_pickle(BATCH)
    for length in range(len(content)):
        with pytest.raises(UserError, match=f"{length} bytes"):
            load_pickle("batch", content[:length])
