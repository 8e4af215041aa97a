"""What things cost: losses, methods, precision, augmentation, diagnosis, many runs, and a run itself."""

from __future__ import annotations

from statistics import mean
from typing import Any

from benchmarks.methods_cost import AUGMENTED, DECORRELATED
from benchmarks.precision import rows as precision_rows
from benchmarks.quotes.records import record, table

PEAK = "pool's peak memory in MB"
WHY = {
    "fedsam": "two passes a step",
    "fedsol": "two passes a step, and a reference network",
    "moon": "two reference networks, without gradients",
    "fedntd": "one reference network",
    "feddr": "one reference network",
    "fedvls": "one reference network",
    "fedmuon": "products of each layer's momentum with itself",
    "fedmr": "one more pass over the images, without gradients",
    "fednh": "one more pass over the images, without gradients",
    "fedrcl": "contrasts of what several levels make",
    "scaffold": "a term of the weights",
    "feddyn": "a term of the weights",
    "fedprox": "a term of the weights",
}
"""Why a method costs more than FedAvg."""


def loss_cost() -> str:
    """Return what the loss costs, alone and in a step."""
    found = record("results/loss_cost.json")
    names = {
        "feddecorr": "`feddecorr`",
        "singular": "`singular`",
        "singular, decomposed": "`singular`, by decomposing the covariance matrix",
        "feddecorr, d×d": "`feddecorr`, with the d×d product",
    }
    steps, alone = found["ratio to plain"], found["milliseconds of the loss alone"]
    rows = [
        [text, f"{steps[name]:.3f}" if name in steps else "", f"{alone[name]:.2g} ms" if name in alone else ""]
        for name, text in names.items()
    ]
    return table(("", "a training step, to one without", "the loss alone, forward and backward"), rows)


def step_of_loss() -> str:
    """Return how long a step takes that has no loss besides cross-entropy."""
    steps = record("results/loss_cost.json")["milliseconds of a step, without and with"]
    return f"{round(mean(without for without, _ in steps.values()), -1):.0f} ms"


def other_losses() -> str:
    """Return what the rest of the family takes."""
    alone = record("results/loss_cost.json")["milliseconds of the loss alone"]
    others = [time for name, time in alone.items() if name.split(",")[0] not in {"feddecorr", "singular"}]
    return f"between {min(others):.1f} and {max(others):.1f} ms"


def methods_cost() -> str:
    """Return what methods cost a client; those that cost nothing have one row."""
    measured: dict[str, float] = record("results/methods_cost.json")["ratio to FedAvg"]
    ratios = {name: ratio for name, ratio in measured.items() if not name.endswith((AUGMENTED, DECORRELATED))}
    own = sorted((name for name in ratios if name in WHY or ratios[name] > 1.02), key=lambda name: -ratios[name])
    augmented = {name: f"{measured[name + AUGMENTED]:.2f}" for name in own if name + AUGMENTED in measured}
    rows = [[name, WHY.get(name, ""), f"{ratios[name]:.2f}", augmented.get(name, "")] for name in own]
    others = [ratio for name, ratio in ratios.items() if name not in own]
    reason = "nothing in the local steps, or only in the last layer"
    rows.append(["all others", reason, f"{min(others):.2f} to {max(others):.2f}", ""])
    return table(("method", "why", "ratio", "on augmented images"), rows, words=2)


def precision() -> str:
    """Return speed and exactness of the settings that the page speaks of."""
    found = {**record("results/precision.json")["found"], **record("results/precision_resnet18.json")["found"]}
    wanted = {"fp32, contiguous", "fp32, channels_last", "bf16, channels_last"}
    names = ("convnet", "resnet20", "resnet18", "mobilenetv2")
    rows = [row[:-1] for row in precision_rows({name: found[name] for name in names}) if row[1] in wanted]
    return table(("network", "setting", "ms a step", "speed", "error of the first gradient"), rows, words=2)


def augmentation_cost() -> str:
    """Return the shares of a training step."""
    found = record("results/augmentation_cost.json")
    names = ("crop,flip", "autoaugment", "crop,flip,autoaugment")
    return ", ".join(f"`{name}` {100 * found[name]['share']:.1f} %" for name in names)


def report_opening() -> str:
    """Return how large the report of many long runs is, and how long it takes to open."""
    found = record("results/report_opening.json")
    return f"{found['megabytes']:.1f} MB and opens in {found['seconds to open']:.1f} s"


def metric_cost() -> str:
    """Return what the metric adds to evaluating."""
    return f"{100 * record('results/metric_cost.json')['update and compute, of 10 000 images']:.1f} %"


def import_cost() -> str:
    """Return how long importing takes, by importing PyTorch."""
    return f"{record('results/metric_cost.json')['import to that of torch']:.2f}"


def conformance() -> str:
    """Return how far others, as they are installed, are from our calls."""
    rows = []
    for each in record("results/conformance.json")["comparisons"]:
        largest = max(value for value in each["differences"].values() if value is not None)
        package = f"{each['package']} {each['version']}"
        call, _, then = each["call"].partition("`")
        said = f"`{call}`{then.rstrip('`')}"
        rows.append([package, each["what"], said, f"{largest:.0e}" if largest > 0 else "0"])
    return table(("package", "what", "here", "largest relative difference"), rows, words=3)


def diagnosis_cost() -> str:
    """Return the time of a pass, without and with the diagnosis."""
    found = record("results/diagnosis_cost.json")
    alone, whole = found["seconds of forward passes alone"], found["seconds with the diagnosis"]
    return f"{alone:.1f} s and, with everything above, {whole:.1f} s: {100 * (found['ratio'] - 1):.1f} % more"


def busy() -> str:
    """Return how busy the runner of studies keeps the cores."""
    return f"{100 * record('results/studies.json')['medians']['busy']:.0f} %"


def time_left() -> str:
    """Return how wrong the runner's time left was at most."""
    return f"{100 * max(record('results/studies.json')['turns']['time left']):.0f} %"


def speed() -> str:
    """Return how much faster two workers are than a bare loop, in the setting with large clients."""
    return f"{_speeds()[0]['ratio to bare']['pool']:.2f}"


def memory() -> str:
    """Return what all processes take together, in the setting that takes the most."""
    return f"{max(found[PEAK]['pss'] for found in _speeds()) / 1000:.1f} GB"


def _speeds() -> list[Any]:
    found = record("results/speed.json").values()
    return [each for each in found if isinstance(each, dict) and "ratio to bare" in each]


def plan() -> str:
    """Return what was planned against what runs took."""
    settings = record("results/plan.json")["settings"]
    rows = [
        [name, f"{each['planned']:.1f} s", f"{each['taken']:.1f} s", f"{each['ratio']:.2f}"]
        for name, each in settings.items()
    ]
    return table(["run", "planned", "taken", "ratio"], rows)


def study_costs() -> str:
    """Return what each of the paper's studies costs at its own scale."""
    studies = record("results/study_costs.json")["studies"]
    rows = [
        [
            f"`{name}`",
            each["place"],
            str(each["total_runs"]),
            f"{each['total_images'] / 1e9:.2f}",
            f"{each['total_flops'] / 1e18:.2f}",
            f"{each['largest_device_memory'] / 1e9:.1f} GB",
            f"{each['total_seconds'] / 3600:.0f}",
        ]
        for name, each in studies.items()
    ]
    headings = [
        "study",
        "where",
        "runs",
        "images, 10⁹",
        "FLOP, 10¹⁸",
        "memory of the card, at most",
        "hours on one A100",
    ]
    return table(headings, rows)


def device_traffic() -> str:
    """Return what crosses in a step, a round and an evaluation."""
    methods = record("results/device_traffic.json")["methods"]
    rows = [
        [name, part, *(f"{counts[kind]:.0f}" for kind in ("in", "out", "reads"))]
        for name, parts in methods.items()
        for part, counts in parts.items()
    ]
    return table(["method", "in", "tensors to the device", "tensors back", "values read"], rows)
