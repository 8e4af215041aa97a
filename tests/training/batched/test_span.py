import pytest
from beside import Neighbours, gap

from feddecorr.training.batched.span import spanned_weights
from feddecorr.training.shards import Visits


def spanned(clients: Neighbours) -> str | None:
    task, shards = clients.simulation.task, clients.simulation.shards
    visits = sorted((Visits(task, 1, shards[client]) for client in range(4)), key=lambda each: -each.steps)
    return spanned_weights(task, task.build_model(), visits)


@pytest.mark.parametrize("partition", ["dirichlet", "homogeneous"])
def test_training_in_the_span_is_training_the_weights(partition: str) -> None:
    """A limit that no gradient comes near changes nothing but where the first layer is trained."""
    words = [f"partition={partition}", "regularizers=feddecorr", "training.weight_decay=0.1", "training.steps=20"]
    inside, outside = Neighbours(*words, wide=True), Neighbours(*words, "training.max_grad_norm=1e9", wide=True)
    assert (spanned(inside), spanned(outside)) == ("features.1.weight", None)
    assert gap(inside.together(range(4)), outside.together(range(4))) < 1e-12


@pytest.mark.parametrize(
    "words",
    [
        "training.optimizer=adamw",  # whose steps are not linear
        "data.augment=flip",  # of images that change
        "model.widths=[]",  # where the representation, which is the image, is looked at
        "model=beside_networks:frozen",
        "model=beside_networks:repeated",
        "data.size=4",  # as small as that, steps with the weights themselves are less work
    ],
)
def test_the_span_is_for_layers_whose_steps_stay_in_it_and_where_it_pays(words: str) -> None:
    assert spanned(Neighbours(*words.split())) is None
