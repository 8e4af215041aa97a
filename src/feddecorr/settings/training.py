"""How clients train, and how models are evaluated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from feddecorr.settings.kinds import Kind


class Training(Kind):
    """How a client trains; the defaults are the paper's."""

    epochs: PositiveInt = Field(10, description="passes over the client's data in a round")
    batch: PositiveInt = Field(64, description="examples in a step")
    lr: float = Field(0.01, gt=0, description="learning rate of SGD")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    weight_decay: float = Field(1e-5, ge=0, description="weight decay of SGD")
    threads: PositiveInt = Field(1, description="threads of one client; part of the result's last bits")
    device: str = Field("cpu", description="where clients train and models are evaluated: cpu, cuda, cuda:0, …")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of forward and backward passes; weights stay fp32")
    memory_format: Literal["channels_last", "contiguous"] = Field("channels_last", description="of images")
    compile: bool = Field(False, description="let PyTorch compile the network first, which takes about a minute")


class Evaluation(Kind):
    """How models are evaluated on the test images."""

    every: PositiveInt = Field(1, description="rounds from one evaluation to the next; the last is always evaluated")
    batch: PositiveInt = Field(500, description="images in one forward pass")
    clients: bool = Field(False, description="evaluate each client's model, too, before models are averaged")
    epochs: bool = Field(False, description="record the terms of each client's objective for every local epoch")
