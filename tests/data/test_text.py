"""Windows of text, and the speeches that are embedded."""

from __future__ import annotations

from itertools import pairwise

import torch
from small import simulate

from feddecorr.core.limits import Allowance
from feddecorr.data.dataset import Images
from feddecorr.data.text import Passages, Speeches, from_text


def read_back(images: Images, alphabet: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return each window, with a dot where there is no character, and what follows."""
    pixels = images.pixels[:, :, 0]
    assert set(pixels.sum(2).unique().tolist()) <= {0, 1}
    windows = ["".join(alphabet[int(place.argmax())] if place.any() else "." for place in window) for window in pixels]
    return list(zip(windows, [alphabet[label] for label in images.labels.tolist()], strict=True))


def test_the_last_characters_can_be_read_back() -> None:
    train, test = Passages(["héllo", "", "ab"], ["!", "a", "𝕏"]), Passages(["b"], ["l"])
    dataset = from_text(train, test, window=3, owners=torch.zeros(3), allowance=Allowance(0))
    assert read_back(dataset.train, dataset.classes) == [("llo", "!"), ("...", "a"), (".ab", "𝕏")]
    assert read_back(dataset.test, dataset.classes) == [("..b", "l")]
    assert torch.equal(dataset.normalize(dataset.train.pixels).permute(0, 2, 3, 1), dataset.train.pixels.float())


def test_each_speaker_holds_the_windows_of_one_speech() -> None:
    """A window continues the one before it in the same client's speech; test letters are not trained on."""
    simulation = simulate("data=speeches", "data.window=8", "partition=given", "clients=6", "model=mlp")
    whole = Speeches(window=8).load()
    spoken = []
    for places in simulation.shards.parts:
        pairs = read_back(whole.train.take(torch.from_numpy(places)), whole.classes)
        assert pairs[0][0].startswith(".......")
        for (window, following), (later, _) in pairwise(pairs):
            assert later == window[1:] + following
        spoken.append(pairs[0][0][-1] + "".join(following for _, following in pairs))
    assert spoken[1].startswith("to be, or not to be, that is the question")
    ends = "".join(following for _, following in read_back(whole.test, whole.classes))
    assert not any(ends[:40] in speech for speech in spoken)
