import pytest
import torch

from feddecorr.core.randomness import Stream, first_of_permutation, frozen_stream, generator, named_seed, seeded


def test_a_name_is_a_stream() -> None:
    assert torch.equal(torch.rand(3, generator=generator(1, "a", 2)), torch.rand(3, generator=generator(1, "a", 2)))


def test_every_part_of_the_name_matters() -> None:
    names: list[tuple[int, str, *tuple[int, ...]]] = [
        (1, "a", 2, 3),
        (2, "a", 2, 3),
        (1, "b", 2, 3),
        (1, "a", 3, 2),
        (1, "a", 23),
        (1, "a", 2),
    ]
    assert len({named_seed(*name) for name in names}) == len(names)


def test_the_frozen_stream_is_known() -> None:
    """The values of one name, written down once: they may not change with a platform or a version."""
    assert frozen_stream(0, "partition").randint(0, 1000, size=5).tolist() == [879, 574, 597, 857, 947]


def test_the_global_generator_is_put_back() -> None:
    before = torch.get_rng_state()
    with seeded(0, "a"):
        first = torch.rand(3)
    with seeded(0, "a"):
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_those_who_take_turns_draw_as_if_they_were_alone() -> None:
    with seeded(0, "a"):
        alone = torch.rand(3)
    mine, others = Stream(0, "a"), Stream(0, "b")
    drawn = []
    with torch.random.fork_rng():
        for _ in range(3):
            with mine:
                drawn.append(torch.rand(1))
            with others:
                torch.rand(5)
    assert torch.equal(torch.cat(drawn), alone)


@pytest.mark.parametrize("length", [1, 2, 10, 1000, 1_000_000])
def test_the_beginning_of_a_permutation_is_that_of_pytorch(length: int) -> None:
    """Whether a few are asked for or all, for any seed."""
    for count in {1, min(length, 7), min(length, 1000)}:
        for seed in (0, 5, named_seed(1, "a"), named_seed(2, "b")):
            whole = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
            assert first_of_permutation(length, count, seed=seed) == whole[:count].tolist()
