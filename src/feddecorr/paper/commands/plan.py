"""The command that says what an experiment or a study costs, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, TrustOption, print_json, print_table, print_text, say
from feddecorr.cli.progress import duration
from feddecorr.cli.sweep import SeedsOption, StudyPlan
from feddecorr.config.overrides import said
from feddecorr.core.trust import Trust
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.runs.estimate import RunCost
    from feddecorr.runs.hardware import Hardware
    from feddecorr.settings.options import RunOptions

NOT_COUNTED = (
    "Not counted: augmentation, starting up, the measures of an evaluation, and whatever else uses the device."
)


def plan(  # noqa: PLR0913, PLR0917 - an argument for each option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY | RUN | FILE.toml] [KEY=VALUE]...",
            help="A study by its name, a run's directory, or settings as for 'run'; later ones win.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Where it is to run: a100, rtx4090, v100, or cpu, which is this one.")
    ] = "cpu",
    share: Annotated[
        float | None, typer.Option(min=0.01, max=1, help="Share of the peak to assume in place of the device's.")
    ] = None,
    scale: Annotated[str, typer.Option(help="Of a study: paper, small, many or smoke.")] = "paper",
    seeds: SeedsOption = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Say what an experiment or a study costs before anything runs: images, FLOPs, bytes, memory, hours.

    Nothing is trained and no data are read, where they are public. FLOPs are counted in a step of the client's own
    code; the hours assume the shares of the device's peak that are printed.

        feddecorr plan data=cifar10 model=mobilenetv2 method=moon rounds=100 \
            --device a100
        feddecorr plan cifar10 --scale paper --device rtx4090
        feddecorr plan runs/a --device cpu
    """
    from feddecorr.paper.studies import ALL, STUDIES  # noqa: PLC0415 - PyTorch is loaded when it is needed

    first = (words or [""])[0]
    if first == ALL or (first in STUDIES and not Path(first).exists()):
        _study(_planned(first, words or [], scale, seeds), _find(device, share, 1), json=json)
    else:
        _run(*_read(words or [], trust=trust), device, share, json=json)


def _find(device: str, share: float | None, threads: int) -> Hardware:
    from feddecorr.runs.hardware import find_hardware  # noqa: PLC0415

    found = find_hardware(device, threads)
    return found if share is None else replace(found, flops_share=share, bandwidth_share=share)


def _read(words: Sequence[str], *, trust: bool) -> tuple[Experiment, RunOptions]:
    """Return the settings that the words give, onto those of a run's directory if the first word is one."""
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.settings.flat import parse_settings, to_settings  # noqa: PLC0415
    from feddecorr.settings.short_keys import read_settings  # noqa: PLC0415

    trusted, onto = Trust(said(words), files=trust), None
    if words and Path(words[0]).is_dir():
        onto, words = to_settings(*RunDirectory.open(words[0]).settings(trusted)), words[1:]
    return parse_settings(read_settings(words, onto, trusted), trusted)


def _run(experiment: Experiment, options: RunOptions, device: str, share: float | None, *, json: bool) -> None:
    from feddecorr.runs.estimate import cost_of  # noqa: PLC0415

    hardware = _find(device, share, experiment.training.threads)
    cost = cost_of(experiment, options, hardware)
    if json:
        print_json({**asdict(cost), "device": asdict(hardware)})
        return
    for line in describe(cost, hardware):
        print_text(line)


def describe(cost: RunCost, hardware: Hardware) -> list[str]:
    """Return what a run costs, in lines for a reader."""
    memory = f"{gigabytes(cost.host_memory)} of the host"
    if cost.device_memory is not None:
        memory = f"{gigabytes(cost.device_memory)} of the device, {memory}"
        if hardware.memory is not None and cost.device_memory > hardware.memory:
            memory += f"; {hardware.name} has {gigabytes(hardware.memory)}: take fewer engine.workers"
    return [
        *cost.describe(),
        f"computing: {quantity(cost.flops)}FLOP",
        f"traffic: {megabytes(cost.bytes_to_client)} to each client and {megabytes(cost.bytes_from_client)} back, "
        "in each round",
        f"memory: about {memory}, {cost.processes} process{'es' * (cost.processes > 1)}",
        f"time: about {duration(cost.seconds)} on {hardware.name}, assuming {hardware.assumes}",
        NOT_COUNTED,
    ]


def _planned(name: str, words: Sequence[str], scale: str, seeds: int | None) -> StudyPlan:
    from feddecorr.paper.scales import find_scale  # noqa: PLC0415
    from feddecorr.paper.studies import find_studies  # noqa: PLC0415

    if other := [word for word in words[1:] if "=" not in word]:
        raise UserError(f"'{other[0]}': after a study come settings for all of its runs, such as rounds=10")
    count = seeds or find_scale(scale).seeds
    return StudyPlan(find_studies(name), scale, count, Path(), lambda _: "", overrides=words[1:])


def _study(study_plan: StudyPlan, hardware: Hardware, *, json: bool) -> None:
    rows = costs_of(study_plan, hardware)
    if json:
        print_json({"scale": study_plan.scale, "device": asdict(hardware), "runs": rows, **total(rows)})
        return
    if not rows:
        print_text("no runs: all is computed when it is shown")
        return
    headings = ["runs", "what", "images", "FLOP", "MB to and from a client", "memory", "time of one"]
    table = [
        [
            str(row["count"]),
            row["what"],
            quantity(row["images"]),
            quantity(row["flops"]),
            f"{row['bytes_to_client'] / 1e6:.1f} + {row['bytes_from_client'] / 1e6:.1f}",
            gigabytes(row["host_memory"] if row["device_memory"] is None else row["device_memory"]),
            duration(row["seconds"]),
        ]
        for row in rows
    ]
    print_table(headings, table)
    print_text(f"all together: {sentence(rows, hardware)}, assuming {hardware.assumes}")
    print_text(NOT_COUNTED)


def costs_of(study_plan: StudyPlan, hardware: Hardware) -> list[dict[str, Any]]:
    """Return what one run of each kind costs, and how many there are: those that differ in the seed alone are equal."""
    from feddecorr.runs.estimate import cost_of  # noqa: PLC0415
    from feddecorr.sweeps.jobs import plan as jobs_of  # noqa: PLC0415

    rows: dict[str, dict[str, Any]] = {}
    jobs = jobs_of(study_plan.arms(), study_plan.store)
    for place, job in enumerate(jobs, 1):
        what = job.name.removesuffix(f", seed {job.experiment.seed}")
        if what not in rows:
            say(f"counting {place} of {len(jobs)}: {what}")
            rows[what] = {"what": what, "count": 0, **asdict(cost_of(job.experiment, job.options, hardware))}
        rows[what]["count"] += 1
    return list(rows.values())


def total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many runs there are, and their images, FLOPs and seconds together."""
    summed = {f"total_{key}": sum(row["count"] * row[key] for row in rows) for key in ("images", "flops", "seconds")}
    return {"total_runs": sum(row["count"] for row in rows), **summed}


def sentence(rows: Sequence[dict[str, Any]], hardware: Hardware) -> str:
    """Say what all runs cost together, one after another."""
    found = total(rows)
    return (
        f"{found['total_runs']} runs, {quantity(found['total_images'])}images, {quantity(found['total_flops'])}FLOP, "
        f"about {duration(found['total_seconds'])} on one {hardware.name}"
    )


def quantity(value: float) -> str:
    """Format a large number, with a prefix of the SI after it."""
    for power, prefix in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:.3g} {prefix}"
    return f"{value:.3g} "


def gigabytes(size: float) -> str:
    """Format a size of memory."""
    return f"{size / 1e9:.1f} GB"


def megabytes(size: float) -> str:
    """Format a size of a message."""
    return f"{size / 1e6:.2f} MB"
