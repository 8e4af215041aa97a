"""What holds for every method; a new one joins by its name in the table."""

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import torch
from each import each
from plain import Batch, batches, same, send
from pydantic import Field, PositiveInt, ValidationError
from small import digest, result, simulate, small

from feddecorr.collapse.representation import capture_feature_maps, capture_representations
from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Update
from feddecorr.core.randomness import threads
from feddecorr.core.states import State
from feddecorr.methods import METHODS, Method
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.objective.terms import ClientContext, Pass, combine, cross_entropy
from feddecorr.runs.pipeline import resume, run
from feddecorr.server import rounds
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client

NAMES = list(METHODS.table)

NEUTRAL = {
    "fedprox": "mu=0",
    "fedavgm": "momentum=0",
    "moon": "mu=0",
    "fedrs": "alpha=1",
    "fedlc": "tau=0",
    "fedsam": "rho=0",
    "fedntd": "beta=0",
    "fedexp": "epsilon=1e9",
    "fedacg": "momentum=0 mu=0",
    "fedsol": "rho=0",
    "fedrcl": "weight=0",
    "fedbabu": "head_from=1",
    "fedlesam": "rho=0",
    "fedmr": "intra=0 inter=0",
    "ccvr": "calibration_round=100",
}
"""The options that make a method FedAvg, where it has such."""


STATISTICS = ("batchnorm=pooled", "batchnorm=fixed fix_after=1", "batchnorm=local")
"""The ways of treating BatchNorm's statistics other than averaging them."""


@cache
def end(*words: str) -> str:
    """Return the bits of the model at the end of a run."""
    *_, record = run(*small(*words))
    return digest(record.state)


def play(experiment: Experiment, clients: list[int]) -> tuple[Simulation, list[Update], dict[int, State]]:
    """Train a few clients from the first weights; return their updates and what they remember."""
    simulation = Simulation(experiment)
    client = Client(simulation.task)
    played = {number: client(send(simulation.federation.start()), simulation.shards[number], {}) for number in clients}
    return simulation, [update for update, _ in played.values()], {number: kept for number, (_, kept) in played.items()}


MIXED = list(zip(NAMES, cycle(REGULARIZERS.table), cycle(("", *STATISTICS)), cycle(["serial", "pool"]), strict=False))
"""Every method; each regularizer, each way of treating statistics and each engine to begin with in turn."""


@pytest.mark.parametrize(("name", "regularizer", "statistics", "first"), MIXED)
def test_engines_agree_and_runs_can_be_interrupted(
    name: str, regularizer: str, statistics: str, first: str, tmp_path: Path
) -> None:
    """A run that begins in one engine and goes on in the other ends in the bits of a straight one."""
    words = [f"method={name}", f"regularizers={regularizer}", *statistics.split(), "participation=0.75", "rounds=2"]
    words += ["method.calibration_round=2"] * (name == "ccvr")  # FedAvg before
    engines = {"serial": small(*words), "pool": small(*words, "engine=pool", "engine.workers=2")}
    expected = result(run(*engines["serial"]))
    assert len({bits for _, bits in expected}) == 2  # every round moves the model
    experiment, options = engines.pop(first)
    begun = result(run(experiment, options.model_copy(update={"rounds": 1}), tmp_path / "run"))
    assert begun + result(resume(tmp_path / "run", *engines.popitem()[1])) == expected


def test_every_regularizer_is_among_them() -> None:
    assert {regularizer for _, regularizer, _, _ in MIXED} == REGULARIZERS.table.keys()


@pytest.mark.parametrize(("name", "statistics"), list(zip(NAMES, cycle(STATISTICS), strict=False)))
def test_what_changes_a_run_and_what_does_not(name: str, statistics: str) -> None:
    """Neither a regularizer of weight zero nor evaluating more often; but treating statistics otherwise."""
    words = [f"method={name}", "rounds=2", "training.epochs=1"]
    zero = ["regularizers=feddecorr", "regularizers.feddecorr.beta=0"]
    assert end(*words, *zero, "evaluation.every=100") == end(*words)
    assert end(*words, *statistics.split()) != end(*words)


@pytest.mark.parametrize(("name", "options"), NEUTRAL.items())
def test_a_method_without_its_term_is_fedavg(name: str, options: str) -> None:
    """To the last bit, under partial participation too."""
    words = ["participation=0.75", "regularizers=feddecorr"]
    chosen = [f"method.{option}" for option in options.split()]
    assert end(*words, f"method={name}", *chosen) == end(*words)


def changed(method: type[Method]) -> dict[str, Any]:
    """Return options that all differ from the defaults."""
    options: dict[str, Any] = {}
    for name, field in method.model_fields.items():
        if isinstance(field.default, bool):
            options[name] = not field.default
        elif isinstance(field.default, str):
            options[name] = next(word for word in get_args(field.annotation) if word != field.default)
        else:
            options[name] = next(number for number in _others(field.default) if _accepts(method, name, number))
    return options


def _others(default: float | None) -> Iterator[float]:
    """Yield numbers near the default, whole ones for a whole one."""
    if default is None or not isinstance(default, int):
        yield (default or 0.0) * 0.75 + 0.01
    whole = int(default or 0)
    yield from (number for step in range(1, 10) for number in (whole + step, whole - step))


def _accepts(method: type[Method], option: str, value: float) -> bool:
    try:
        return bool(method.model_validate({option: value}))
    except ValidationError:
        return False


def test_options_of_any_type_can_be_changed() -> None:
    """What the law below needs: also of whole numbers within bounds, and of those that are none by default."""

    class Optional(Method):
        rounds: int = Field(5, le=5)
        warmup: PositiveInt | None = None
        share: float = Field(1.0, gt=0, le=1)
        nesterov: bool = False
        kind: Literal["one", "other"] = "one"

    found = Optional(**changed(Optional))
    assert all(getattr(found, name) != field.default for name, field in Optional.model_fields.items())


@each("name", NAMES)
def test_a_method_survives_dumping_and_pickling(name: str) -> None:
    """With every option changed."""
    method = METHODS.parse({"name": name, **changed(METHODS.table[name])})
    needed = [f"{key}={value}" for key, value in METHODS.table[name].requires.items()]
    experiment = small(*needed).experiment.model_copy(update={"method": method})
    assert experiment.method != METHODS.table[name]() or not METHODS.table[name].model_fields
    assert Experiment.parse(experiment.to_dict()) == experiment
    assert pickle.loads(pickle.dumps(method)) == method  # noqa: S301 - written one word before


@each("name", NAMES)
def test_every_option_is_described_and_the_source_is_named(name: str) -> None:
    """In what `feddecorr list methods` shows."""
    method = METHODS.table[name]
    assert all(field.description for field in method.model_fields.values())
    assert "(" in method.line()
    assert re.search(r"\b(19|20)\d\d\b", method.line())


@pytest.mark.parametrize("name", NAMES)
def test_states_are_values(name: str) -> None:
    """Neither what the server sent nor what it held is changed, and BatchNorm's statistics are no method's."""
    simulation = simulate(f"method={name}")
    server, client = simulation.federation.start(), Client(simulation.task)
    held = [server.weights, server.buffers, server.shared, server.memory]
    before = [digest(state) for state in held]
    updates = [client(send(server), simulation.shards[number], {})[0] for number in (1, 3)]
    moved = simulation.task.experiment.method.aggregate(server, updates, simulation.federation.info(1))
    assert [digest(state) for state in held] == before
    assert same(moved.buffers, server.buffers)
    assert moved.weights.keys() == server.weights.keys()
    assert all(tensor.dtype == torch.float32 for tensor in moved.weights.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_server_takes_ids_for_names_not_positions(name: str) -> None:
    """Clients {1, 3} of 4 move the server as the same updates under any other ids do."""
    simulation, updates, _ = play(small(f"method={name}").experiment, [1, 3])
    method, server = simulation.task.experiment.method, simulation.federation.start()
    renamed = [replace(update, client=update.client + 40) for update in updates]
    assert same(
        method.aggregate(server, updates, simulation.federation.info(1)).weights,
        method.aggregate(server, renamed, simulation.federation.info(1)).weights,
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_clients_that_were_drawn_remember(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On disk, one file each, whatever the number of rounds."""
    monkeypatch.setattr(rounds, "sample_clients", lambda _federation, _number: [3, 1])
    list(run(*small(f"method={name}"), tmp_path / "run"))
    _, _, memories = play(small(f"method={name}").experiment, [1])
    expected = {"1/3.safetensors", "3/3.safetensors"} if memories[1] else set()
    directory = tmp_path / "run" / "clients"
    assert {str(path.relative_to(directory)) for path in directory.glob("*/*")} == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_clients_of_which_a_fifth_take_part(name: str) -> None:
    """Twenty are drawn in each round, the model stays finite, and variances above zero, whatever the method adds."""
    words = [
        "clients=100",
        "participation=0.2",
        "data.train=1000",
        "rounds=2",
        "partition.alpha=10",
        "batchnorm=pooled",
    ]
    records = list(run(*small(f"method={name}", *words)))
    assert [len(record.clients) for record in records] == [20, 20]
    assert all(tensor.isfinite().all() for tensor in records[-1].state.values())
    assert all(records[-1].state[key].min() > 0 for key in records[-1].state if key.endswith("running_var"))


def second_round(name: str) -> tuple[Method, ClientContext, Batch]:
    """Return a client that has taken part once, away from the server's weights, and a batch; in float64."""
    experiment = small(f"method={name}").experiment
    simulation, updates, memories = play(experiment, [1, 3])
    server = experiment.method.aggregate(simulation.federation.start(), updates, simulation.federation.info(1))
    model = simulation.task.build_model().double().train()
    model.load_state_dict({**server.weights, **server.buffers})
    context = ClientContext(
        client=1,
        broadcast=send(server, 2),
        memory={key.removeprefix(METHOD): tensor for key, tensor in memories[1].items()},
        model=model,
        labels=simulation.dataset.train.labels[simulation.shards.parts[1]],
        classes=4,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    x, y = batches(experiment, 1, 2)[0]
    return experiment.method, context, (x.double(), y)


def look(context: ClientContext, batch: Batch) -> Pass:
    x, y = batch
    with capture_representations(context.model) as seen, capture_feature_maps(context.model) as maps:
        logits = context.model(x)
    return Pass(x, y, seen.z, logits, dict(context.model.named_parameters()), maps.levels(seen.z))


@threads(1)
@pytest.mark.parametrize("name", NAMES)
def test_every_term_reaches_the_parameters(name: str) -> None:
    """Its gradient is that of finite differences along a random direction, and not zero."""
    method, context, batch = second_round(name)
    terms = combine({"cross_entropy": cross_entropy}, method.terms(context))
    stream = torch.Generator().manual_seed(0)
    parameters = context.trainable
    directions = [1e-6 * torch.randn(p.shape, generator=stream, dtype=p.dtype) for p in parameters]
    for term in terms.values():
        gradients = torch.autograd.grad(term(look(context, batch)), parameters, materialize_grads=True)
        assert any(gradient.any() for gradient in gradients)
        rise = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
        ends = []
        for sign in (1, -2, 1):  # there, to the other side, and back
            with torch.no_grad():
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.add_(direction, alpha=sign)
                ends.append(float(term(look(context, batch))))
        assert rise == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-4, abs=1e-12)


def test_the_command_line_names_are_the_table() -> None:
    """FedAvg is first because it is the default."""
    assert METHODS.default == "fedavg"
    table: Mapping[str, type[Method]] = METHODS.table
    assert all(name == cls.__name__.lower() for name, cls in table.items())
