"""What the scales of the studies mean: one table, in the words of the command line.

Nothing here depends on which arm of a comparison a run is: but for what is compared, both have the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from feddecorr.errors import UserError, nearest
from feddecorr.results.study import Label, Labels

Grids = Mapping[str, Mapping[str, Sequence[Label]]]
"""By study: the values that an axis has at a scale in place of its own. Under `*`, those of all that are named."""


@dataclass(frozen=True)
class When:
    """Further settings of the runs with these labels, and the sentence that names them under a table."""

    labels: Labels
    words: str
    says: str

    def applies(self, labels: Labels) -> bool:
        """Return whether a run has these labels."""
        return all(labels.get(name) == value for name, value in self.labels.items())


@dataclass(frozen=True)
class StudyScale:
    """Settings of every run; of those on a data set, with a network, with a number of clients; and what is left out."""

    says: str
    seeds: int
    every: str
    data: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[Label, str] = field(default_factory=dict)
    when: tuple[When, ...] = ()
    grids: Grids = field(default_factory=dict)

    def values(self, study: str, axis: str, own: Sequence[Label]) -> Sequence[Label]:
        """Return the values that an axis of a study has at this scale; a study that is not named keeps its own."""
        if study not in self.grids:
            return own
        return self.grids[study].get(axis, self.grids["*"].get(axis, own))


METHODS = {
    "fedprox": "method=fedprox method.mu=0.001",
    "fedavgm": "method=fedavgm method.momentum=0.5",
    "moon": "method=moon method.mu=1.0",
    "feddr": "method=feddr model.head=etf",
}
"""The paper's choices (appendix F), and the head of FedDr+'s paper; other methods have their defaults."""

REGULARIZERS = {
    "feddecorr": "regularizers=feddecorr regularizers.feddecorr.beta=0.1 regularizers.feddecorr.normalization=released",
    "feddecorr, dying counted": "regularizers=feddecorr regularizers.feddecorr.beta=0.1 "
    "regularizers.feddecorr.normalization=released regularizers.feddecorr.dying=counted",
    "feddecorr and variance": "regularizers=feddecorr,vicreg_variance regularizers.feddecorr.beta=0.1 "
    "regularizers.feddecorr.normalization=released regularizers.vicreg_variance.weight=1.0",
}

NETWORKS = {
    "perceptron": "model=mlp",
    "perceptron with LayerNorm": "model=mlp model.norm=layer",
    "perceptron with BatchNorm": "model=mlp model.norm=batch",
    "perceptron without last ReLU": "model=mlp model.final_relu=false",
    "lenet": "model=lenet",
    "convnet": "model=convnet",
    "convnet with GroupNorm": "model=convnet model.norm=group",
    "transformer": "model=transformer",
    "resnet18 with GroupNorm": "model=resnet18 model.norm=group",
}
"""Networks that differ in what stands before the representation."""

SOON = "rounds=12 training.epochs=2 training.lr=0.01 training.schedule=constant"
"""Features die early, and networks without normalization take no large steps."""

EARLY = {
    **{name: f"{words} {SOON}" for name, words in NETWORKS.items()},
    "resnet18 with GroupNorm": f"{NETWORKS['resnet18 with GroupNorm']} model.width=0.25 model.stem=2 {SOON}",
    "small resnet20": "model=resnet20 model.stem=2",
}

SMALL_IMAGES = {
    name: f"data={name} data.size=16 data.train={train} data.test=5000"
    for name, train in (("cifar10", 10000), ("cifar100", 20000), ("tinyimagenet", 20000))
}

HALF = "BatchNorm's statistics are fixed after half of the rounds"


def cosine(rounds: int) -> str:
    """Return the overrides for that many rounds, over which the learning rate falls to nothing."""
    return f"rounds={rounds} training.schedule=cosine training.schedule.over={rounds}"


def annealed(rounds: int, over: int = 10) -> tuple[When, When]:
    """Say what the two schedules mean at a scale: constant for its rounds and then annealed, and falling all along."""
    held = f"training.schedule=cosine training.schedule.hold={rounds} training.schedule.over={over}"
    says = f"a constant learning rate for {rounds} rounds, which is then annealed over {over}"
    return (
        When({"schedule": "constant, then annealed"}, f"rounds={rounds + over} {held} evaluation.every=1", says),
        When({"schedule": "cosine"}, cosine(rounds), f"a learning rate that falls over {rounds} rounds"),
    )


def convnet(widths: str) -> str:
    """Return the words for a convnet of these widths."""
    return f"model=convnet model.widths=[{widths}]"


def fixed_after(rounds: int) -> When:
    """Say what it means at a scale that statistics are fixed."""
    return When({"statistics": "fixed"}, f"fix_after={rounds}", HALF)


def served(regularizer: str, name: str, weight: str) -> When:
    """Say which weight a regularizer has at a scale."""
    says = f"{name} has weight {weight}, the best of four on a separate seed"
    return When({"regularizer": regularizer}, f"regularizers.{regularizer}.weight={weight}", says)


PAPER = StudyScale(
    says="The paper's settings and, where its text is silent, its authors' code: the scale of FedDecorr "
    "(normalization=released), the form of MobileNetV2 (model.variant=released), and splits in which a client that "
    "holds its equal share gets no further class (partition.capacity_rule=at).",
    seeds=3,
    every="clients=10 partition=dirichlet partition.capacity_rule=at model=mobilenetv2 model.variant=released "
    "training.epochs=10 training.batch=64 training.lr=0.01 training.momentum=0.9 evaluation.every=1",
    data={
        "cifar10": "data=cifar10 training.weight_decay=1e-5 rounds=100",
        "cifar100": "data=cifar100 training.weight_decay=1e-4 rounds=100",
        "tinyimagenet": "data=tinyimagenet data.augment=autoaugment training.weight_decay=1e-4 rounds=50",
    },
    models=NETWORKS,
    clients={
        50: "clients=50 participation=0.2 rounds=100",
        100: "clients=100 participation=0.2 rounds=100",
    },
    when=(
        When({"data": "cifar10"}, "data.augment=crop,flip", "crops and flips on CIFAR-10 (authors' code)"),
        When(
            {"data": "cifar100"},
            "data.augment=crop,flip,autoaugment",
            "crops and flips before AutoAugment on CIFAR-100 (authors' code)",
        ),
        When(
            {"data": "cifar100", "regularizer": "feddecorr"},
            "regularizers.feddecorr.beta=0.05",
            "beta is 0.05 on CIFAR-100 (authors' scripts; the text says 0.1)",
        ),
        When({"method": "fedprox"}, "", "FedProx as published (in the authors' code its term is always zero)"),
        When({"method": "fedavgm"}, "method.variant=released", "FedAvgM damps as in the authors' code"),
        When(
            {"method": "fedavgm", "data": "cifar10"},
            "method.momentum=0.9",
            "server momentum is 0.9 on CIFAR-10 (authors' scripts; the text says 0.5)",
        ),
        When({"method": "moon"}, "method.variant=released", "MOON without its temperature (authors' code)"),
        When(
            {"method": "moon", "data": "cifar10"},
            "model.projection=256",
            "MOON has a projection head on CIFAR, and FedDecorr acts on its output (authors' code)",
        ),
        When(
            {"method": "moon", "data": "cifar100"},
            "model.projection=256",
            "MOON has a projection head on CIFAR, and FedDecorr acts on its output (authors' code)",
        ),
        fixed_after(50),
        *annealed(100),
    ),
)

REDUCED: Grids = {
    "*": {"data": ("cifar10",)},
    "sphere": {"model": ("small resnet20",)},
    "collapse": {},
    "collapse-local": {},
    "collapse-methods": {"alpha": (0.05, 0.25, "inf")},
    "collapse-models": {"model": ("narrow", "wide")},
    "collapse-data": {"data": ("cifar10", "cifar100"), "alpha": (0.05, "inf")},
    "mitigation": {},
    "cifar10": {"alpha": (0.1,)},
    "cifar100": {"data": ("cifar100",), "method": ("fedavg",), "alpha": (0.05,)},
    "tinyimagenet": {"data": ("tinyimagenet",), "method": ("fedavg",), "alpha": (0.05,)},
    "rounds": {},
    "clients": {"clients": (10, 30, 100), "alpha": (0.1,)},
    "beta": {"beta": (0, 0.01, 0.05, 0.1, 0.2), "alpha": (0.1,)},
    "epochs": {"epochs": (1, 5, 10), "alpha": (0.1,)},
    "decorrelation": {"alpha": (0.1,)},
    "architectures": {"model": ("narrow", "middle", "wide"), "alpha": (0.1,)},
    "baselines": {},
    "classes": {},
    "computation": {},
    "stability": {},
    "loss-scale": {"beta": (0, 0.01, 0.1, 1)},
    "many-classes": {"data": ("cifar100", "tinyimagenet")},
    "norms": {},
    "averaging": {},
    "swing": {},
    "rivals": {},
    "checklist": {},
    "dying": {},
    "dying-by-beta": {},
    "dying-larger": {},
    "schedule": {"data": ("cifar10",)},
}
"""What is left of the studies where a run of everything would take too long."""

SMALL = StudyScale(
    says="Small: ResNet18 at a quarter of its width with a stem of stride 2, 10 000 images of 16×16, one local epoch, "
    "60 rounds and learning rate 0.03, the same for both arms of every comparison; chosen on FedAvg alone.",
    seeds=3,
    every="clients=10 partition=dirichlet model=resnet18 model.width=0.25 model.stem=2 training.epochs=1 "
    "training.batch=64 training.lr=0.03 training.momentum=0.9 training.weight_decay=1e-5 rounds=60 "
    "evaluation.clients=last evaluation.every=5 evaluation.final=10",
    data=SMALL_IMAGES,
    models={
        **EARLY,
        "narrow": "model=resnet18 model.width=0.125 model.stem=2",
        "middle": "model=resnet18 model.width=0.25 model.stem=2",
        "wide": "model=resnet18 model.width=0.5 model.stem=2",
    },
    clients={100: "clients=100 participation=0.2 rounds=120"},
    when=(
        fixed_after(30),
        served("decov", "DeCov", "0.01"),
        served("structured_decov", "Structured-DeCov", "0.0001"),
        When({"epochs": 5}, "rounds=24", "24 rounds of 5 local epochs"),
        When({"epochs": 10}, "rounds=15", "15 rounds of 10 local epochs"),
        *annealed(60),
    ),
    grids=REDUCED,
)

MANY = StudyScale(
    says="Many seeds: a convnet of six layers, 10 000 images of 16×16, one local epoch, 30 rounds over which the "
    "learning rate falls from 0.05 to nothing, the same for both arms of every comparison; chosen on FedAvg alone.",
    seeds=20,
    every=f"clients=10 partition=dirichlet {convnet('16,32,64,64,64,128')} training.epochs=1 training.batch=64 "
    f"training.lr=0.05 training.momentum=0.9 training.weight_decay=1e-5 {cosine(30)} "
    "evaluation.every=3 evaluation.final=10",
    data={**SMALL_IMAGES, "cifar10, all images": "data=cifar10 data.size=16 data.test=5000"},
    models={
        **EARLY,
        "narrow": convnet("8,16,32,32,32,64"),
        "wide": convnet("32,64,128,128,128,256"),
        **{f"{width} dimensions": convnet(f"16,32,64,64,64,{width}") for width in (128, 512, 1280)},
    },
    clients={100: f"clients=100 participation=0.2 {cosine(60)}"},
    when=(
        fixed_after(15),
        served("decov", "DeCov", "0.0001"),
        served("structured_decov", "Structured-DeCov", "0.0001"),
        *annealed(30),
    ),
    grids={
        **REDUCED,
        "cifar100": {"data": ("cifar100",), "method": ("fedavg",)},
        "beta": {"beta": (0, 0.05, 0.1, 0.2), "alpha": (0.1,)},
        "clients": {"data": ("cifar10, all images",), "clients": (10, 30, 100), "alpha": (0.1,)},
        "architectures": {
            "model": ("128 dimensions", "512 dimensions", "1280 dimensions"),
            "alpha": (0.1,),
        },
        "schedule": {"data": ("cifar10", "cifar100")},
    },
)

FEW_OF_MANY = (
    "clients=100 participation=0.05 partition=equal_shares model=resnet18 model.norm=group model.groups=2 "
    "training.epochs=5 training.batch=50 training.lr=0.1 training.momentum=0 training.weight_decay=1e-3 "
    "training.max_grad_norm=10 training.schedule=step training.schedule.every=1"
)
"""Five of a hundred clients a round, with equal shares, ResNet18 with two groups of GroupNorm, and plain SGD."""

NO_STATISTICS: Grids = {"swing": {"statistics": ("average", "pooled")}}
"""GroupNorm has none; as `none` says, too."""

PROTOCOL = StudyScale(
    says="The protocol of tables since 2024 (FedACG, FedRCL, FedWSQ): 100 clients with equal shares of which 5 take "
    "part, ResNet18 with GroupNorm, 5 local epochs of plain SGD in batches of 50, clipped at 10, learning rate 0.1 "
    "which falls by a factor of 0.998 a round, 1000 rounds. Not theirs: images are not rotated, FedRCL's learning rate "
    "falls within local epochs too, and clients are averaged by their numbers of examples, which are equal.",
    seeds=3,
    every=f"{FEW_OF_MANY} training.schedule.drop=0.998 rounds=1000 evaluation.every=1 evaluation.clients=last "
    "evaluation.flops=true",
    data={
        "cifar10": "data=cifar10 data.augment=crop,flip",
        "cifar100": "data=cifar100 data.augment=crop,flip",
        "tinyimagenet": "data=tinyimagenet data.augment=crop,flip training.batch=100",
    },
    models=NETWORKS,
    clients={500: "clients=500 participation=0.02 training.batch=10"},
    when=(fixed_after(500), *annealed(1000)),
    grids={"*": {}, **NO_STATISTICS},
)

PROTOCOL_SMALL = StudyScale(
    says="The protocol reduced: 10 000 images of 16×16, 100 for each of 100 clients, ResNet18 at a quarter of its "
    "width with a stem of stride 2, and 100 rounds, over which the learning rate falls as far as in the protocol's "
    "1000; all else as there, the learning rate too.",
    seeds=3,
    every=f"{FEW_OF_MANY} model.width=0.25 model.stem=2 training.schedule.drop=0.98 rounds=100 evaluation.every=2 "
    "evaluation.final=10 evaluation.clients=last evaluation.flops=true",
    data={name: f"{words} data.test=2000" for name, words in SMALL_IMAGES.items()},
    models={**EARLY, "narrow": "model.width=0.125", "middle": "model.width=0.25", "wide": "model.width=0.5"},
    when=(fixed_after(50), *annealed(100)),
    grids={**REDUCED, **NO_STATISTICS},
)

SMOKE = StudyScale(
    says="Smoke: synthetic images and two rounds, to see that everything runs. The numbers mean nothing.",
    seeds=1,
    every="data=synthetic data.train=160 data.test=60 data.classes=4 data.channels=1 data.size=8 clients=4 "
    "partition=dirichlet partition.minimum=5 model=convnet model.widths=[8,16] training.epochs=1 training.batch=16 "
    "rounds=2 evaluation.clients=last evaluation.every=1",
    data={
        "synthetic": "",
        "digits": "data=digits data.train=160 data.test=60",
    },
    models={
        "narrow": "model.widths=[8,8]",
        "wide": "model.widths=[8,24]",
        "perceptron": "model=mlp model.widths=[8]",
    },
    clients={8: "clients=8 participation=0.5"},
    when=(fixed_after(1), *annealed(2, over=1)),
    grids={
        "*": {"data": ("synthetic",), "model": ("convnet",), "alpha": (0.05, 0.5, "inf")},
        "sphere": {"alpha": ("inf", 0.05)},
        "collapse": {},
        "collapse-local": {},
        "collapse-methods": {},
        "collapse-models": {"model": ("narrow", "wide"), "alpha": (0.05, "inf")},
        "collapse-data": {"data": ("synthetic", "digits"), "alpha": (0.05, "inf")},
        "mitigation": {"alpha": (0.05,)},
        "cifar10": {},
        "cifar100": {},
        "tinyimagenet": {},
        "rounds": {},
        "clients": {"clients": (4, 6, 8), "alpha": (0.05,)},
        "beta": {"beta": (0, 0.05, 0.1), "alpha": (0.05,)},
        "epochs": {"epochs": (1, 2), "alpha": (0.05,)},
        "decorrelation": {"alpha": (0.05,)},
        "architectures": {"model": ("narrow", "convnet", "wide"), "alpha": (0.05,)},
        "baselines": {"alpha": (0.05, 0.5)},
        "classes": {},
        "computation": {"alpha": (0.5,)},
        "stability": {"alpha": (0.5,)},
        "loss-scale": {"beta": (0, 0.1), "alpha": (0.05,)},
        "many-classes": {"clients": (4, 6), "alpha": (0.05,)},
        "norms": {"alpha": (0.05,)},
        "averaging": {"alpha": (0.05, 0.5)},
        "swing": {"alpha": (0.05,)},
        "rivals": {"alpha": (0.05,)},
        "checklist": {"method": ("fedavg",), "alpha": (0.05,)},
        "dying": {"model": ("perceptron",), "alpha": (0.05,)},
        "dying-by-beta": {"model": ("perceptron",), "clients": (4, 1), "beta": (0, 0.1), "alpha": (0.05,)},
        "dying-larger": {"data.size": (8,), "model": ("perceptron",), "alpha": (0.05,)},
        "schedule": {"alpha": (0.05,)},
    },
)

SCALE_OF = {
    "paper": PAPER,
    "small": SMALL,
    "many": MANY,
    "protocol": PROTOCOL,
    "protocol-small": PROTOCOL_SMALL,
    "smoke": SMOKE,
}


def find_scale(name: str) -> StudyScale:
    """Return what that scale means."""
    if name not in SCALE_OF:
        raise UserError(f"unknown scale '{name}': {nearest(name, SCALE_OF)}")
    return SCALE_OF[name]
