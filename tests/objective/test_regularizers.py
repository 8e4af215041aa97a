import pytest
import torch
from small import digest, small

from feddecorr.config.experiment import Experiment
from feddecorr.errors import RunError, UserError
from feddecorr.loss import contrastive, decorrelation
from feddecorr.objective.regularizers import REGULARIZERS, FedDecorr, StructuredDeCov, Weighted
from feddecorr.objective.terms import Pass
from feddecorr.runs.pipeline import run

every_name = pytest.mark.parametrize("name", REGULARIZERS.table)


def weigh(name: str, weight: float) -> str:
    """Return the word that sets a regularizer's weight."""
    option = "beta" if name == "feddecorr" else "weight"
    return f"regularizers.{name}.{option}={weight}"


def forward() -> Pass:
    """Return a pass of which only representations and labels are real."""
    z = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    return Pass(x=z, y=torch.arange(6) % 2, z=z, logits=z, parameters={})


@every_name
def test_weight_times_loss(name: str) -> None:
    """Each kind is the function of its name, and twice the weight is twice the term."""
    (one,) = small(f"regularizers={name}", weigh(name, 0.25)).experiment.regularizers.values()
    (two,) = small(f"regularizers={name}", weigh(name, 0.5)).experiment.regularizers.values()
    loss = getattr(contrastive if hasattr(contrastive, name) else decorrelation, name)
    labels = [forward().y] if name == "supervised_contrastive" else []
    assert torch.equal(one(forward()), 0.25 * loss(forward().z, *labels))
    assert torch.equal(2 * one(forward()), two(forward()))


@every_name
def test_a_run_records_the_term_and_is_changed_by_it(name: str) -> None:
    """The gradient reaches the weights."""
    words = [f"regularizers={name}", weigh(name, 0.1), "rounds=1"]
    (with_term,), (without,) = run(*small(*words)), run(*small("rounds=1"))
    assert with_term.terms.keys() == {"cross_entropy", name}
    assert digest(with_term.state) != digest(without.state)


@every_name
def test_no_weight_is_no_regularizer(name: str) -> None:
    """Bit for bit."""
    (weightless,), (without,) = run(*small(f"regularizers={name}", weigh(name, 0), "rounds=1")), run(*small("rounds=1"))
    assert digest(weightless.state) == digest(without.state)


def test_several_at_once() -> None:
    """Each is a term of its own."""
    words = [f"regularizers={','.join(REGULARIZERS.table)}", *(weigh(name, 0.01) for name in REGULARIZERS.table)]
    (record,) = run(*small(*words, "rounds=1"))
    assert record.terms.keys() == {"cross_entropy", *REGULARIZERS.table}


@every_name
def test_settings_survive_being_written_and_read(name: str) -> None:
    """As every experiment's are when it is resumed."""
    experiment = small(f"regularizers={name}", weigh(name, 0.3)).experiment
    assert Experiment.parse(experiment.to_dict()) == experiment


def test_options_of_single_kinds() -> None:
    """The scale of FedDecorr and the groups of Structured-DeCov."""
    experiment = small("regularizers.feddecorr.normalization=paper", "regularizers.structured_decov.size=4").experiment
    options = {"feddecorr": FedDecorr(normalization="paper"), "structured_decov": StructuredDeCov(size=4)}
    assert experiment.regularizers == options
    paper, structured = experiment.regularizers.values()
    assert torch.equal(paper(forward()), 0.1 * decorrelation.feddecorr(forward().z, "paper"))
    assert torch.equal(structured(forward()), 0.001 * decorrelation.structured_decov(forward().z, 4))


def test_options_of_the_newer_kinds() -> None:
    """Shrinkage, kernel, temperature, penalty and threshold reach their functions."""
    words = "logdet.shrinkage=0.5 uniformity.t=3 supervised_contrastive.temperature=0.5 supervised_contrastive.beta=2"
    regularizers = small(*(f"regularizers.{word}" for word in words.split())).experiment.regularizers
    shrunk, spread, relaxed = (term(forward()) for term in regularizers.values())
    z, labels = forward().z, forward().y
    assert torch.equal(shrunk, decorrelation.logdet(z, 0.5))
    assert torch.equal(spread, 0.1 * contrastive.uniformity(z, 3.0))
    assert torch.equal(relaxed, contrastive.supervised_contrastive(z, labels, 0.5, 2.0))
    near = small("regularizers.supervised_contrastive.threshold=-1").experiment.regularizers["supervised_contrastive"]
    assert torch.equal(near(forward()), contrastive.supervised_contrastive(z, labels, threshold=-1.0))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("regularizers=decof", "did you mean 'decov'"),
        ("regularizers.decov.beta=1", "unknown option 'beta'"),
        ("regularizers.decov.weight=-1", "expected at least 0"),
        ("regularizers.feddecorr.weight=1", "unknown option 'weight': there are: beta, dying, normalization"),
        ("regularizers.feddecorr.normalization=own", "'paper' or 'released'"),
        ("regularizers.structured_decov.size=0", "expected more than 0"),
        ("regularizers.logdet.shrinkage=1", "less than 1"),
        ("regularizers.uniformity.t=0", "expected more than 0"),
        ("regularizers.supervised_contrastive.threshold=2", "expected at most 1"),
    ],
)
def test_what_is_wrong_is_said(word: str, message: str) -> None:
    """In the words of the command line."""
    with pytest.raises(UserError, match=message):
        small(word)


@every_name
def test_a_diverged_model_is_reported(name: str) -> None:
    """A regularizer does not hide that representations are no numbers any more, and the client is refused by it."""
    z = torch.full((4, 3), torch.nan)
    (term,) = small(f"regularizers={name}").experiment.regularizers.values()
    assert term(Pass(x=z, y=torch.arange(4) % 2, z=z, logits=z, parameters={})).isnan()
    with pytest.raises(RunError, match=r"client \d failed in round 1: .* became nan .*lower training\.lr"):
        list(run(*small(f"regularizers={name}", "training.lr=1e30", "rounds=1")))


def test_a_kind_of_the_users_own_needs_one_function() -> None:
    """As the documentation says."""

    class Norm(Weighted):
        """Keeps representations short."""

        def loss(self, z: torch.Tensor) -> torch.Tensor:
            return z.square().mean()

    assert torch.equal(Norm(weight=2.0)(forward()), 2 * forward().z.square().mean())
