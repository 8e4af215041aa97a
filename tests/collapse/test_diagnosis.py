import io
import json
from dataclasses import fields
from typing import assert_type, get_type_hints

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import feddecorr
from feddecorr import Diagnosis, diagnose
from feddecorr.collapse.diagnosis import MEANINGS
from feddecorr.collapse.measures import is_recorded
from feddecorr.collapse.statistics import Batch

NUMBERS = (int, float, int | None, float | None)
"""Types of measures that are one number."""


def look(name: str = "mine", *, labelled: bool = True) -> Diagnosis:
    stream = torch.Generator().manual_seed(1)
    x, y = torch.randn(90, 5, generator=stream), torch.randint(3, (90,), generator=stream)
    batch: Tensor | tuple[Tensor, Tensor] = (x, y) if labelled else x
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))
    return diagnose(model, [batch], name=name)


def test_every_measure_is_a_declared_field() -> None:
    """The type checker knows each, and there is nothing else."""
    found = look()
    assert_type(found.effective_rank, float)
    assert_type(found.significant_singular_values, int)
    assert_type(found.nc1_variability, float | None)
    assert vars(found).keys() == {each.name for each in fields(Diagnosis)}
    with pytest.raises(AttributeError):
        getattr(found, "rank")  # noqa: B009 - the type checker would refuse the plain form


@pytest.mark.parametrize(("dead", "said"), [(0, False), (1, False), (3, True)])
def test_many_dead_features_are_reported_with_what_works_against_them(dead: int, *, said: bool) -> None:
    """A tenth of all, or more; one of twenty is only counted."""
    z = torch.randn(90, 20, generator=torch.Generator().manual_seed(0))
    z[:, :dead] = 0
    words = " ".join(Diagnosis.of_features("mine", [Batch(z)]).answer())
    assert (f"{dead} of 20 features never vary" in words) == (dead > 0)
    assert ("regularizers.feddecorr.dying=counted" in words) is said


def test_every_number_has_its_meaning_in_words() -> None:
    """And words are for measures alone; of these, only the reference is no number."""
    types = get_type_hints(Diagnosis)
    numbers = {each.name for each in fields(Diagnosis) if types[each.name] in NUMBERS}
    assert MEANINGS.keys() - {"reference"} == numbers - {"client"}


def test_a_run_records_all_numbers_and_both_spectra() -> None:
    """By the fields' own declarations; the start of a run is the same in all of its rounds."""
    types = get_type_hints(Diagnosis)
    recorded = {each.name for each in fields(Diagnosis) if is_recorded(each)}
    numbers = {each.name for each in fields(Diagnosis) if types[each.name] in NUMBERS}
    lists = {"singular_values", "classifier_singular_values"}
    assert recorded == numbers - {"client", "start_effective_rank"} | lists | {"measures"}


@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_recorded_is_read_back(*, labelled: bool) -> None:
    """To the last bit, through JSON; what is not recorded is not known."""
    found = look(labelled=labelled)
    line = json.dumps(found.recorded(), allow_nan=False)
    again = Diagnosis.from_dict(json.loads(line))
    assert again.recorded() == found.recorded()
    assert None not in found.recorded().values()
    assert [again.per_class_samples, again.layer_singular_values, again.principal] == [None, None, None]
    assert (again.accuracy is None) == (not labelled)


def test_a_document_is_read_back() -> None:
    """With all of its tables: it holds everything but matrices and samples."""
    found = look()
    document = found.to_dict()
    assert next(iter(document)) == "name"
    assert all(getattr(found, name) is value for name, value in document.items())
    assert vars(found).keys() - document.keys() == {"principal", "gathered"}
    assert Diagnosis.from_dict(json.loads(json.dumps(document, allow_nan=False))) == found == found.lean()


def test_a_comparison_is_read_back_with_what_it_was_compared_to() -> None:
    """A document names the reference."""
    stream = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 40, 4, generator=stream)
    reference = Diagnosis.of_features("first", [Batch(first)])
    found = Diagnosis.of_features("second", [Batch(second, reference=first)], reference)
    again = Diagnosis.from_dict(found.to_dict())
    assert again.reference == "first"
    assert again.linear_cka == found.linear_cka is not None
    assert again.answer(reference) == found.answer(reference)


def test_a_diagnosis_shows_itself() -> None:
    """By print, by rich, in a notebook and as a picture, each with the name and the effective rank."""
    found = look("<mine>")
    rank = f"{found.effective_rank:.4g}"
    console = Console(width=120, file=io.StringIO())
    with console.capture() as captured:
        console.print(found)
    for text in (str(found), captured.get()):
        assert "<mine>" in text
        assert rank in text
    assert "&lt;mine&gt;" in found._repr_html_()
    assert rank in found._repr_html_()
    assert "<mine>" in repr(found)
    drawn = np.exp(np.array(feddecorr.plot(found).data[0].y))
    np.testing.assert_allclose(drawn[:5], found.singular_values[:5])
