"""What somebody who sees the models can find out, computed apart from the package."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.optimize import brentq
from scipy.stats import norm


def really_lost(rate: float, shift: float, steps: int, delta: float) -> float:
    """Return ε of the mixture against the noise, by an attacker who rounds every loss down: no less can be true."""
    step = 2e-3
    outputs = np.linspace(-12, shift + 12, 400_001)
    middle = (outputs[1:] + outputs[:-1]) / 2
    odds = shift * middle - shift**2 / 2
    losses = np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + odds)
    mixture = (1 - rate) * np.diff(norm.cdf(outputs)) + rate * np.diff(norm.cdf(outputs - shift))
    places = np.floor((losses - _width(shift, outputs)) / step).astype(int)
    power: NDArray[np.float64] = np.bincount(places - places.min(), mixture).astype(np.float64)
    first, total, origin = places.min(), np.ones(1), 0
    while steps:
        if steps % 2:
            total, origin = _convolve(total, power), origin + first
        power, first, steps = _convolve(power, power), 2 * first, steps // 2
    values = (origin + np.arange(len(total))) * step

    def spends(asked: float) -> float:
        above = values > asked
        return float(-(total[above] * np.expm1(asked - values[above])).sum())

    return float(brentq(lambda asked: spends(asked) - delta, 0, values[-1])) if spends(0) > delta else 0.0


def _width(shift: float, outputs: NDArray[np.float64]) -> float:
    """Return how much the loss changes at most within a cell of outputs."""
    return shift * float(outputs[1] - outputs[0])


def _convolve(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    size = len(one) + len(other) - 1
    fast = next_fast_len(size, real=True)
    found = np.fft.irfft(np.fft.rfft(one, fast) * np.fft.rfft(other, fast), fast)
    return np.maximum(found[:size], 0)
