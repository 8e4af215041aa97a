import numpy as np
import pytest
import torch
from numpy.random import RandomState

from feddecorr.core.randomness import frozen_stream
from feddecorr.errors import UserError
from feddecorr.paper.theory.network import one_hot
from feddecorr.paper.theory.start import random_weights
from feddecorr.paper.theory.studies.alignment import study_alignment, train
from feddecorr.paper.theory_settings import Alignment


def test_training_is_that_of_pytorch() -> None:
    """SGD with momentum and weight decay takes PyTorch's steps on the mean cross-entropy."""
    stream = RandomState(0)
    rows, labels = stream.uniform(size=(12, 5)).astype(np.float32), stream.randint(3, size=12)
    settings = Alignment(dim=4, batch=12, momentum=0.9, weight_decay=0.1, lr=0.5, epochs=(3,), epoch_samples=12)
    start = random_weights([5, 4, 4, 3], frozen_stream(settings.seed, "theory/alignment"))
    model = [torch.nn.Parameter(torch.from_numpy(matrix)) for matrix in start]
    optimizer = torch.optim.SGD(model, lr=0.5, momentum=0.9, weight_decay=0.1)
    for found in train(settings, rows, one_hot(labels, 3)):
        optimizer.zero_grad()
        logits = torch.from_numpy(rows).double() @ (model[2] @ model[1] @ model[0]).T
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()
        optimizer.step()
        for parameter, matrix in zip(model, found, strict=True):
            np.testing.assert_allclose(matrix, parameter.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_an_epoch_of_a_small_data_set_is_several_passes() -> None:
    """Thirty samples make an epoch: three passes through ten, in five batches of six."""
    rows, targets = RandomState(0).uniform(size=(10, 5)).astype(np.float32), one_hot(np.arange(10) % 2, 2)
    once = Alignment(dim=3, batch=6, epochs=(1,), epoch_samples=30)
    assert len(list(train(once, rows, targets))) == 1
    thrice = once.model_copy(update={"epochs": (3,), "epoch_samples": 10, "batch": 10})
    whole = once.model_copy(update={"batch": 10})
    for one, other in zip(list(train(whole, rows, targets))[-1], list(train(thrice, rows, targets))[-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_training_aligns_the_digits() -> None:
    """From a random start, the singular vectors of classifier and product come together."""
    settings = Alignment(data="digits", dim=16, epochs=(1, 6), epoch_samples=6000, lr=0.05)
    early, late = study_alignment(settings).document["epochs"]
    assert early["score"] < 0.6
    assert late["score_of_learned"] > 0.8
    assert late["test_accuracy"] > 0.85


def test_unknown_data_are_refused() -> None:
    """The message names what there is."""
    with pytest.raises(UserError, match="unknown data set 'digit': did you mean 'digits'"):
        study_alignment(Alignment(data="digit"))
