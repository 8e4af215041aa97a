from multiprocessing.reduction import ForkingPickler

import torch

from feddecorr.engines.shared_memory import SharedStates, StateLayout


def test_states_come_back_as_they_went_in() -> None:
    """Whatever their types, shapes and memory formats."""
    sections = {
        "weights": {"a": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "b": torch.randn(7)[::2]},
        "buffers": {"count": torch.tensor(3), "flags": torch.tensor([True, False]), "none": torch.empty(0)},
        "extra": {},
    }
    shared = SharedStates(StateLayout.of(sections))
    shared.fill(sections)
    back = shared.states
    assert back.keys() == sections.keys()
    for section, state in sections.items():
        assert back[section].keys() == state.keys()
        for name, tensor in state.items():
            assert torch.equal(back[section][name], tensor)
            assert back[section][name].dtype == tensor.dtype
    assert back["weights"]["a"].is_contiguous(memory_format=torch.channels_last)


def test_tensors_never_overlap() -> None:
    state = {str(size): torch.full((size,), float(size)) for size in range(1, 40)}
    views = SharedStates(StateLayout.of({"all": state})).states["all"]
    for name, view in views.items():
        view.fill_(float(name))
    assert all(torch.equal(views[name], tensor) for name, tensor in state.items())


def test_what_lies_in_its_place_is_not_copied() -> None:
    """And whatever does not is written."""
    state = {"a": torch.randn(3, 4), "b": torch.randn(5)}
    shared = SharedStates(StateLayout.of({"all": state}))
    shared.fill({"all": state})
    before = shared.flat._version
    shared.fill(shared.states)
    assert shared.flat._version == before
    there = shared.states["all"]
    shared.fill({"all": {"a": there["a"], "b": state["b"] + 1}})
    assert torch.equal(there["a"], state["a"])
    assert torch.equal(there["b"], state["b"] + 1)


def test_shared_states_arrive_as_the_same_memory() -> None:
    state = {"a": torch.zeros(3)}
    shared = SharedStates(StateLayout.of({"all": state}))
    arrived = ForkingPickler.loads(ForkingPickler.dumps(shared))
    shared.states["all"]["a"].fill_(1.0)
    assert torch.equal(arrived.states["all"]["a"], torch.ones(3))


def test_only_tensors_of_the_same_names_types_shapes_and_formats_fit() -> None:
    """Then their layout would be the same; gaps between their numbers do not matter."""
    image = torch.randn(2, 3, 4, 5)
    shared = SharedStates(StateLayout.of({"all": {"a": image, "b": torch.randn(4)}}))
    assert shared.fits({"all": {"b": torch.randn(8)[::2], "a": image + 1}})
    others = {
        "name": {"a": image, "c": torch.randn(4)},
        "type": {"a": image, "b": torch.randn(4).double()},
        "shape": {"a": image, "b": torch.randn(5)},
        "format": {"a": image.to(memory_format=torch.channels_last), "b": torch.randn(4)},
        "more": {"a": image, "b": torch.randn(4), "c": torch.randn(4)},
    }
    assert not [what for what, state in others.items() if shared.fits({"all": state})]
