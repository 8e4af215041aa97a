"""Client-level differential privacy: what is sent, how much noise, and what it is worth."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from command_line import CommandLine
from sent_updates import SIZES, apply, draw, flat
from small import digest, result, small

from feddecorr.accounting import ORDERS, epsilon, privacy_spent
from feddecorr.errors import UserError
from feddecorr.messages import Broadcast, RoundInfo
from feddecorr.noise import gaussian
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.examining import examine
from feddecorr.runs.looking import Wanted
from feddecorr.runs.pipeline import resume, run
from feddecorr.transforms import LocallyPrivate, Private

GROUPS = ("model.norm=group", "rounds=2", "transforms=private")


def test_the_noise_nobody_foresees_is_normal_and_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    urandom = os.urandom

    def noted(count: int) -> bytes:
        asked.append(count)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", noted)
    values = gaussian(torch.Size([200, 1001]), None).flatten().numpy()
    assert sum(asked) >= 16 * len(values)
    assert values.mean() == pytest.approx(0, abs=4 / math.sqrt(len(values)))
    assert values.std() == pytest.approx(1, abs=4 / math.sqrt(2 * len(values)))
    ordered = np.sort(values)
    normal = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in ordered[::100]])
    there = np.arange(len(values))[::100] / len(values)
    assert np.abs(normal - there).max() < 1.95 / math.sqrt(len(values))  # Kolmogorov and Smirnov, at 0.1 %
    assert not torch.equal(gaussian(torch.Size([8]), None), gaussian(torch.Size([8]), None))


@pytest.mark.parametrize("kind", [Private, LocallyPrivate])
def test_no_client_can_change_more_than_the_norm_and_all_count_the_same(kind: type[Private]) -> None:
    tiny = kind(norm=0.5, noise=1e-12, seed=0)
    found = apply(tiny, [draw()[0]])[0]
    assert float(flat(found.weights).norm()) == pytest.approx(0.5)
    assert (found.examples, found.amount) == (1, 1.0)
    together = apply(tiny, draw())
    if kind is Private:
        expected = torch.stack([0.5 * flat(each.weights) / flat(each.weights).norm() for each in draw()]).mean(dim=0)
        assert all(torch.allclose(flat(each.weights), expected) for each in together)


@pytest.mark.parametrize(("kind", "spread"), [(Private, 2.0 * 3.0 / 9), (LocallyPrivate, 2.0 * 3.0)])
def test_the_spread_of_the_noise_is_what_the_guarantee_needs(kind: type[Private], spread: float) -> None:
    """By a trusted server noise·norm on the sum, so over n on the mean; by clients noise·norm each."""
    start = {"w": torch.zeros(300, 300, dtype=torch.float64)}
    sent = [type(update)(1, update.client, 5, 1.0, dict(start), {}, {}, {}) for update in draw()]
    transform = kind(norm=3.0, noise=2.0, seed=1)
    found = list(transform(sent, Broadcast(1, start, {}, {}), RoundInfo(1, 0, SIZES)))
    assert float(found[0].weights["w"].std()) == pytest.approx(spread, rel=0.02)
    assert torch.equal(found[0].weights["w"], found[1].weights["w"]) == (kind is Private)
    again = list(transform(sent, Broadcast(2, start, {}, {}), RoundInfo(2, 0, SIZES)))
    assert not torch.equal(found[0].weights["w"], again[0].weights["w"])


def test_what_would_tell_of_data_beside_the_weights_is_refused_before_there_is_a_run(tmp_path: object) -> None:
    for words in (["model.norm=batch"], ["method=scaffold"]):
        with pytest.raises(UserError, match="protects the weights alone"):
            list(run(small(*GROUPS, *words), f"{tmp_path}/run"))
        assert not os.path.exists(f"{tmp_path}/run")  # noqa: PTH110 - a path in words


def test_a_seeded_run_is_repeatable_and_any_other_is_not(tmp_path: object) -> None:
    seeded = (*GROUPS, "transforms.private.seed=3")
    expected = result(run(small(*seeded)))
    begun = result(run(small(*seeded, "rounds=1"), f"{tmp_path}/seeded"))
    assert begun + result(resume(f"{tmp_path}/seeded", experiment=small(*seeded, "engine=pool"))) == expected
    one, other = (list(run(small(*GROUPS), f"{tmp_path}/{name}"))[-1].state for name in "ab")
    assert digest(one) != digest(other)
    with pytest.raises(UserError, match="its noise had no seed"):
        examine(RunDirectory.open(f"{tmp_path}/a"), Wanted(round=1), "a", lambda _: None)


PUBLISHED = [
    (0.01, 4.0, 10_000, 1e-5, 1.26),  # Abadi et al., 2016, section 3.2
    (256 / 60_000, 1.3, 15 * 60_000 // 256, 1e-5, 1.19),  # the table of TensorFlow Privacy's tutorial on MNIST
    (256 / 60_000, 1.1, 60 * 60_000 // 256, 1e-5, 3.01),
    (256 / 60_000, 0.7, 45 * 60_000 // 256, 1e-5, 7.10),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "published"), PUBLISHED)
def test_the_accountant_gives_the_published_values(
    rate: float, noise: float, steps: int, delta: float, published: float
) -> None:
    """By the conversion of their time; ours, from a later paper, is at most that."""
    from opacus.accountants.analysis.rdp import compute_rdp  # noqa: PLC0415 - an extra

    divergences = compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=ORDERS)
    classic = min(rdp + math.log(1 / delta) / (order - 1) for rdp, order in zip(divergences, ORDERS, strict=True))
    assert classic == pytest.approx(published, abs=0.02)
    assert 0.7 * published < epsilon(rate, noise, steps, delta) <= classic


def test_without_a_draw_it_is_the_gaussian_mechanism() -> None:
    """Its Rényi divergence is α/2σ² a step, so ε falls with the noise as the known bound says."""
    steps, noise, delta = 10, 8.0, 1e-5
    bound = steps / (2 * noise**2) + math.sqrt(2 * steps * math.log(1 / delta)) / noise
    assert 0.7 * bound < epsilon(1.0, noise, steps, delta) <= bound * 1.001


def test_the_command_tells_what_was_spent_and_what_will_be(feddecorr: CommandLine, tmp_path: object) -> None:
    words = ["clients=1000", "participation=0.05", "rounds=100", "transforms=private", "transforms.private.noise=1"]
    foreseen = feddecorr("privacy", *words, "--delta", "1e-5", "--json").document
    assert foreseen["epsilon"] == pytest.approx(epsilon(0.05, 1.0, 100, 1e-5))
    assert foreseen["epsilon"] < foreseen["epsilon_if_drawn"] == pytest.approx(epsilon(1.0, 1.0, 100, 1e-5))
    list(run(small(*GROUPS), f"{tmp_path}/run"))
    assert "after 2 rounds: with or without a client" in feddecorr("privacy", f"{tmp_path}/run").out
    refused = feddecorr("privacy", "clients=3")
    assert refused.code == 2
    assert "nothing is private" in refused.err
    local = privacy_spent(small(*GROUPS[:2], "transforms=locally_private"), 4, 1e-5)
    assert local.epsilon == pytest.approx(epsilon(1.0, 0.5, 4, 1e-5))


def test_a_delta_that_is_no_probability_is_refused(feddecorr: CommandLine) -> None:
    refused = feddecorr("privacy", "transforms=private", "--delta", "2")
    assert refused.code == 2
    assert "delta=2.0 is no probability above 0 and below 1" in refused.err
