"""Where the pages quote, and what."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.quotes import (
    costs,
    faults,
    first_hour,
    flower,
    hostile,
    judged,
    pairs,
    reached,
    recorded,
    speeds,
    studied,
    theory,
)

DEAD = {
    "Features that never vary": [
        "seeds",
        "dead features",
        "of",
        "effective rank",
        "accuracy (%), last round",
        "accuracy (%), all rounds",
    ]
}
PLACE = re.compile(r"(<!-- quote ([a-z-]+) -->)(\s*).*?(\s*)(<!-- end -->)", re.DOTALL)
QUOTES: dict[str, Callable[[], str]] = {
    "first-runs": lambda: first_hour.outputs("skewed", "even"),
    "first-diagnosis": first_hour.diagnosis,
    "cured-run": lambda: first_hour.outputs("cured"),
    "first-runs-over-seeds": first_hour.over_seeds,
    "first-gain": first_hour.gain,
    "demo": first_hour.demo,
    "loss-scale": reached.loss_scale,
    "loss-cost": costs.loss_cost,
    "step-of-loss": costs.step_of_loss,
    "other-losses": costs.other_losses,
    "methods-accuracy": reached.methods_accuracy,
    "fedavgm-published": reached.accuracies("fedavgm,momentum=0.9"),
    "fedavgm-released": reached.accuracies("fedavgm,momentum=0.9,variant=released"),
    "moon-published": reached.accuracies("moon"),
    "moon-released": reached.accuracies("moon,variant=released"),
    "methods-cost": costs.methods_cost,
    "precision": costs.precision,
    "augmentation-cost": costs.augmentation_cost,
    "diagnosis-cost": costs.diagnosis_cost,
    "metric-cost": costs.metric_cost,
    "import-cost": costs.import_cost,
    "recorded-results": recorded.comparisons,
    "conformance": costs.conformance,
    "report-opening": costs.report_opening,
    "busy": costs.busy,
    "plan": costs.plan,
    "study-costs": costs.study_costs,
    "device-traffic": costs.device_traffic,
    "time-left": costs.time_left,
    "speed": costs.speed,
    "memory": costs.memory,
    "evaluation": speeds.evaluation,
    "threads": speeds.threads,
    "tiny-clients": speeds.tiny_clients,
    "million-clients": speeds.million_clients,
    "every-write": faults.every_write,
    "random-kills": faults.random_kills,
    "long-life": faults.long_life,
    "broken-inputs": faults.broken_inputs,
    "torture-messages": faults.messages,
    "guided-inputs": faults.guided_inputs,
    "hostile-seeds": hostile.seeds,
    "hostile-costs": hostile.costly("fedavg"),
    "hostile-fedavg": hostile.accuracies("fedavg"),
    "hostile-scaffold": hostile.accuracies("scaffold"),
    "hostile-feddyn": hostile.accuracies("feddyn"),
    "beside-the-paper": pairs.beside_the_paper,
    "gains-by-alpha": pairs.by_alpha("small"),
    "gains-by-alpha-many": pairs.by_alpha("many"),
    "dying": studied.part_of("dying", ["model", "regularizer"], DEAD),
    "dying-by-beta": studied.part_of("dying-by-beta", ["model", "clients", "beta"], DEAD),
    "dying-larger": studied.part_of("dying-larger", ["model", "regularizer"], DEAD),
    "claims": judged.claims,
    "claims-count": judged.counts,
    "claims-settings": judged.settings,
    "claims-in-words": judged.in_words,
    "collapse": studied.part_of(
        "collapse",
        ["alpha"],
        {"Dimensions in use": ["seeds", "effective rank", "significant singular values", "of", "local models"]},
    ),
    "averaging": studied.part_of(
        "averaging",
        ["alpha", "regularizer"],
        {"Effective rank before and after": ["seeds", "clients' models", "their average", "change"]},
    ),
    "decorrelation": studied.gains("decorrelation", "regularizer", scale="many"),
    "classes": studied.gains("classes", "classes", scale="many"),
    "methods": studied.gains("cifar10", "method", scale="many"),
    "clients": studied.gains("clients", "clients", scale="many"),
    "epochs": studied.gains("epochs", "epochs", scale="many"),
    "architectures": studied.gains("architectures", "model", scale="many"),
    "beta": studied.gains("beta", "beta", scale="many", base="beta 0"),
    "many-classes": studied.without_and_with("many-classes", "data", "clients", scale="many"),
    "strengths": studied.part_of(
        "loss-scale",
        ["normalization", "beta"],
        {
            "Difference to beta 0 (percentage points)": ["last round", "while the learning rate is high", "best round"],
            "Dimensions in use": ["effective rank"],
        },
        scale="many",
    ),
    "rivals": studied.without_and_with("rivals", "method", "head", scale="many"),
    "papers-network": pairs.papers_network,
    "flower-engines": flower.engines,
    "flower-load": flower.load,
    "flower-start": flower.start,
    "flower-deployed": flower.deployed,
    "flower-imports": flower.imports,
    "flower-sizes": flower.sizes,
    "scale-seconds": flower.seconds,
    "scale-megabytes": flower.megabytes,
    "scale-meeting": flower.meeting,
    "scale-round": flower.one_round,
    "scale-plan": flower.plan,
    "scale-clients": flower.client_sizes,
    "theory-layers": theory.by_layers,
    "theory-printed": lambda: theory.as_printed("flow"),
    "theory-ranks": lambda: theory.ranks("sweep"),
    "theory-random": lambda: theory.random_start("random"),
    "theory-mnist": lambda: theory.alignment("mnist"),
    "theory-momentum": lambda: theory.alignment("mnist-momentum"),
    "theory-decorrelate": lambda: theory.decorrelated("decorrelate"),
}
"""All that is quoted, by the name in the pages."""


def fill(text: str) -> str:
    """Return a page with all that it quotes as the records have it now."""

    def write(place: re.Match[str]) -> str:
        begin, name, before, after, end = place.groups()
        return f"{begin}{before}{QUOTES[name]()}{after}{end}"

    return PLACE.sub(write, text)
