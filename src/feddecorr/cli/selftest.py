"""The command that tries the laws of runs on the reader's own device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from feddecorr.cli.console import JsonOption, number, print_json, print_table, say
from feddecorr.config.overrides import read_overrides
from feddecorr.errors import RunError

if TYPE_CHECKING:
    from feddecorr.core.states import State
    from feddecorr.runs.record import Record

SETTINGS = (
    "data=synthetic data.classes=10 data.channels=3 data.size=32 data.train=2000 data.test=500 clients=4 "
    "partition.alpha=1 model=convnet training.epochs=1 rounds=2 method=scaffold regularizers=feddecorr"
)
"""What is run: small, and with every part that remembers something."""

ROUNDING = 0.02
"""By how much weights may differ between devices after a few steps, seen from their norm."""

TURNS = 3


class LawReport(NamedTuple):
    """One law: whether it holds, None for what is only measured, and the numbers."""

    law: str
    holds: bool | None
    detail: str


def selftest(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings of the runs, such as model=resnet18.")
    ] = None,
    device: Annotated[str, typer.Option(help="The device: cpu, cuda, cuda:1, mps or xpu.")] = "cpu",
    json: JsonOption = False,
) -> None:
    """Try the laws of runs on your own device: equal bits, engines, resuming, the processor's numbers, speed.

    For example:

        feddecorr selftest --device cuda model=resnet18
    """
    from feddecorr.core import devices
    from feddecorr.runs.directory import environment

    devices.require(device)
    findings = []
    for finding in _Laws(words or [], device).all():
        say(f"{finding.law}: {_verdict(finding)}")
        findings.append(finding)
    if json:
        about = {**environment(), **devices.describe(device), "kind": devices.kind(device)}
        print_json({"environment": about, "laws": [finding._asdict() for finding in findings]})
    else:
        rows = [(finding.law, _verdict(finding), finding.detail) for finding in findings]
        print_table(("law", "", "found"), rows)
    if broken := [finding.law for finding in findings if finding.holds is False]:
        raise RunError(f"on device={device} these do not hold: {'; '.join(broken)}")


def _verdict(finding: LawReport) -> str:
    return {True: "holds", False: "does not hold", None: "measured"}[finding.holds]


class _Laws:
    """The runs that the laws compare, each done once."""

    def __init__(self, words: list[str], device: str) -> None:
        self._words, self._device = [*SETTINGS.split(), *words], device
        self._straight = self._last()

    def all(self) -> Iterator[LawReport]:
        """Yield what is found of each law, one after another."""
        laws: tuple[Callable[[], LawReport], ...] = (
            self._twice, self._pooled, self._resumed, self._as_on_the_processor, self._speed, self._memory
        )  # fmt: skip
        for law in laws:
            yield law()

    def _run(self, *words: str, device: str | None = None, out: Path | None = None) -> Iterator[Record]:
        from feddecorr.runs.pipeline import run
        from feddecorr.settings.flat import parse_settings

        settings = read_overrides([*self._words, f"device={device or self._device}", *words])
        return run(*parse_settings(settings), out)

    def _last(self, *words: str, device: str | None = None) -> State:
        return list(self._run(*words, device=device))[-1].state

    def _equal(self, law: str, other: State) -> LawReport:
        apart = _distance(self._straight, other)
        same = all(bool((tensor == other[name]).all()) for name, tensor in self._straight.items())
        return LawReport(law, same, "equal bits" if same else f"weights apart by {apart:.2g} of their norm")

    def _twice(self) -> LawReport:
        return self._equal("a run repeated has the same bits", self._last())

    def _pooled(self) -> LawReport:
        from feddecorr.core import devices

        used = ",".join(devices.expand([devices.kind(self._device)]))
        pool = ("engine=pool", "engine.workers=2", f"engine.devices={used}")
        return self._equal(f"engine=pool on {used} has the bits of engine=serial", self._last(*pool))

    def _resumed(self) -> LawReport:
        from feddecorr.core.temporary import temporary_folder
        from feddecorr.runs.pipeline import resume
        from feddecorr.settings.flat import parse_settings

        with temporary_folder() as folder:
            list(self._run("rounds=1", out=folder / "run"))
            settings = parse_settings(read_overrides([*self._words, f"device={self._device}"]))
            (last,) = resume(folder / "run", *settings)
            return self._equal("a resumed run has the bits of a straight one", last.state)

    def _as_on_the_processor(self) -> LawReport:
        few = ("rounds=1", "training.steps=3", "training.lr=0.001")
        apart = _distance(self._last(*few, device="cpu"), self._last(*few))
        law = "three steps have the processor's numbers"
        return LawReport(law, apart <= ROUNDING, f"weights apart by {apart:.2g} of their norm")

    def _speed(self) -> LawReport:
        mine, bare = zip(*(self._images_per_second() for _ in range(TURNS)), strict=True)
        detail = f"{number(max(mine), 0)} images/s, a bare loop {number(max(bare), 0)}"
        return LawReport("images per second in local training", None, detail)

    def _images_per_second(self) -> tuple[float, float]:
        """Return how many a client trains on, and a bare loop over the same images with the same network."""
        import torch
        from torch.nn.functional import cross_entropy

        from feddecorr.core.messages import Broadcast
        from feddecorr.server.federation import Simulation
        from feddecorr.settings.flat import parse_settings
        from feddecorr.training.client import Client

        words = [*self._words, "method=fedavg", "regularizers=none", f"device={self._device}"]
        experiment, _ = parse_settings(read_overrides(words))
        simulation = Simulation(experiment, device=self._device)
        task, shard = simulation.task.built(), simulation.shards.near(self._device)[0]
        client, model = Client(task), task.build_model().train()
        weights = {name: each.detach().cpu().clone() for name, each in model.named_parameters()}
        buffers = {name: each.cpu().clone() for name, each in model.named_buffers()}
        sent = Broadcast(round=1, weights=weights, buffers=buffers, shared={})

        def ours() -> None:
            client(sent, shard, {})

        def bare() -> None:
            x, y = task.inputs(shard.images)
            optimizer = torch.optim.SGD(model.parameters(), lr=experiment.training.lr)
            for batch in torch.randperm(len(y)).to(self._device).split(experiment.training.batch):
                optimizer.zero_grad()
                cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
            next(model.parameters()).detach().sum().cpu()  # waits for the device

        return _rate(ours, len(shard)), _rate(bare, len(shard))

    def _memory(self) -> LawReport:
        from feddecorr.core import devices

        peak = devices.peak_memory(self._device)
        return LawReport(
            "peak memory", None, f"{self._device} does not say" if peak is None else f"{peak / 1e6:.0f} MB"
        )


def _rate(work: Callable[[], None], images: int) -> float:
    started = time.perf_counter()
    work()
    return images / (time.perf_counter() - started)


def _distance(one: State, other: State) -> float:
    """Return how far apart two states are, by the norm of the first."""
    floats = [(tensor, other[name]) for name, tensor in one.items() if tensor.is_floating_point()]
    apart = sum(float((mine - theirs).double().square().sum()) for mine, theirs in floats)
    return float((apart / sum(float(mine.double().square().sum()) for mine, _ in floats)) ** 0.5)
