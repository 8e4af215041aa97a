from pathlib import Path

import pytest

from feddecorr.config.overrides import read_overrides
from feddecorr.core.text import read_list
from feddecorr.errors import UserError


def test_a_bare_name_chooses_and_dotted_keys_set_options() -> None:
    words = ["partition=dirichlet", "partition.alpha=0.05", "rounds=20", "training.lr=1e-3"]
    assert read_overrides(words) == {
        "partition": {"name": "dirichlet", "alpha": 0.05},
        "rounds": 20,
        "training": {"lr": 1e-3},
    }


def test_the_order_of_name_and_options_does_not_matter() -> None:
    assert read_overrides(["partition.alpha=1", "partition=dirichlet"]) == read_overrides(
        ["partition=dirichlet", "partition.alpha=1"]
    )


def test_later_words_win() -> None:
    assert read_overrides(["seed=1", "seed=2"]) == {"seed": 2}
    assert read_overrides(["model=mlp", "model=convnet"]) == {"model": "convnet"}


def test_another_kind_drops_the_options_of_the_first() -> None:
    words = ["partition=dirichlet", "partition.alpha=1", "partition=homogeneous"]
    assert read_overrides(words) == {"partition": {"name": "homogeneous"}}


def test_several_regularizers_at_once() -> None:
    words = ["regularizers=feddecorr,other", "regularizers.feddecorr.beta=0.1"]
    assert read_overrides(words) == {"regularizers": {"feddecorr": {"beta": 0.1}, "other": {}}}


def test_regularizers_can_be_taken_away_again() -> None:
    assert read_overrides(["regularizers.feddecorr.beta=0.1", "regularizers=none"]) == {"regularizers": {}}
    assert read_overrides(["regularizers.feddecorr.beta=0.1", "regularizers="]) == {"regularizers": {}}


def test_a_number_is_no_regularizer_but_a_name_that_is_not_known() -> None:
    """It is left to the experiment to refuse it by its name."""
    assert read_overrides(["regularizers=3"]) == {"regularizers": {"3": {}}}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("crop,flip", ["crop", "flip"]),
        (" 0, 3,", ["0", "3"]),
        ("none", []),
        ("", []),
        (3, [3]),
        ([3, 5], [3, 5]),
        (("crop",), ["crop"]),
    ],
)
def test_lists_are_read_as_people_write_them(written: object, read: list[object]) -> None:
    """With commas, as a list of TOML or Python, or as a lone number."""
    assert read_list(written) == read


def test_a_file_says_the_same_as_words(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        'data = "digits"\nrounds = 3\n[partition]\nalpha = 0.05\nname = "dirichlet"\n'
        "[regularizers.feddecorr]\nbeta = 0.2\n[training]\nlr = 0.1\n"
    )
    words = ["data=digits", "rounds=3", "partition=dirichlet", "partition.alpha=0.05"]
    words += ["regularizers=feddecorr", "regularizers.feddecorr.beta=0.2", "training.lr=0.1"]
    assert read_overrides([str(file)]) == read_overrides(words)


def test_words_after_a_file_win(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text("[partition]\nname = 'dirichlet'\nalpha = 0.05\n")
    assert read_overrides([str(file), "partition.alpha=1"])["partition"]["alpha"] == 1


def test_an_empty_table_chooses_a_regularizer(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text("[regularizers.feddecorr]\n")
    assert read_overrides([str(file)]) == {"regularizers": {"feddecorr": {}}}


@pytest.mark.parametrize("word", ["nothing-like-this.toml", "=3", "a..b=1", ".=1"])
def test_what_is_no_setting_is_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"key=value"):
        read_overrides([word])


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text("rounds = = 3")
    with pytest.raises(UserError, match=r"broken\.toml"):
        read_overrides([str(file)])
