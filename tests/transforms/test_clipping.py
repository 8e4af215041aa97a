"""No client moves further than the norm, in exact terms, whatever numbers it sends."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sent_updates import START, apply, draw, flat

from feddecorr.core.states import State
from feddecorr.transforms.private import Clip, clipped_update, clipped_weights

EXPONENTS = st.floats(-30, 38)
TYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def square(state: State) -> Fraction:
    """Return the squared length of all numbers together, exactly."""
    return sum((Fraction(value) ** 2 for value in flat(state).tolist()), Fraction(0))


def exact_change(start: State, end: State) -> Fraction:
    """Return the squared length of end − start, exactly."""
    pairs = zip(flat(start).tolist(), flat(end).tolist(), strict=True)
    return sum(((Fraction(b) - Fraction(a)) ** 2 for a, b in pairs), Fraction(0))


def states(dtype: torch.dtype, weights: float, change: float, seed: int) -> tuple[State, State]:
    """Return weights of that size, and weights that far from them, as far as the type can say it."""
    stream = torch.Generator().manual_seed(seed)
    largest = torch.finfo(dtype).max / 4

    def numbers(size: float) -> torch.Tensor:
        drawn = torch.randn(40, generator=stream, dtype=torch.float64).mul(10.0**size)
        return drawn.clamp(-largest, largest)

    start = {"w": numbers(weights).to(dtype), "b": numbers(weights)[:3].to(dtype)}
    end = {name: (tensor.double() + numbers(change)[: len(tensor)]).to(dtype) for name, tensor in start.items()}
    return start, end


@settings(max_examples=300, deadline=None)
@example("float32", 0.0, 9.0, 0.0, 0)
@example("float32", 0.0, 12.0, 0.0, 0)
@example("float32", 38.0, 38.0, 0.0, 0)
@example("float32", 9.0, 9.0, 0.0, 0)
@example("float32", 0.0, -30.0, -30.0, 0)
@example("float64", 160.0, 170.0, 0.0, 0)
@example("float64", 0.0, 306.0, -9.0, 0)
@given(st.sampled_from(sorted(TYPES)), EXPONENTS, EXPONENTS, st.floats(-6, 6), st.integers(0, 9))
def test_a_change_is_never_longer_than_the_norm(
    kind: str, weights: float, change: float, bound: float, seed: int
) -> None:
    """Neither as it enters a private sum, nor as weights of its type; what is short enough keeps its bits."""
    norm = 10.0**bound
    start, end = states(TYPES[kind], weights, change, seed)
    summand, point = clipped_update(start, end, norm), clipped_weights(start, end, norm)
    assert square(summand) <= Fraction(norm) ** 2
    assert exact_change(start, point) <= Fraction(norm) ** 2
    if exact_change(start, end) <= Fraction(norm * (1 - 1e-8)) ** 2:
        assert all(torch.equal(point[name], end[name]) for name in end)
    else:
        assert float(square(summand)) ** 0.5 == pytest.approx(norm, rel=1e-8)


@pytest.mark.parametrize("times", [1e3, 1e9, 1e12, 1e30])
def test_the_direction_is_kept(times: float) -> None:
    for update in draw():
        long = {name: times * tensor for name, tensor in update.weights.items()}
        for found in (clipped_update(START, long, 1.0), clipped_weights(START, long, 1.0)):
            assert torch.allclose(flat(found), flat(update.weights) / flat(update.weights).norm(), rtol=1e-6)


def test_the_transform_shortens_what_is_long_and_nothing_else() -> None:
    sent = draw()
    found = apply(Clip(clipping_norm=1.0), sent)
    assert all(float(flat(each.weights).norm()) == pytest.approx(1.0) for each in found)
    assert all(each.buffers is own.buffers for each, own in zip(found, sent, strict=True))
    assert apply(Clip(clipping_norm=100.0), sent) == sent
