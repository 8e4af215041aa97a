"""Everything that reads what others wrote, each with whole inputs to begin with."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save

from benchmarks.torture.small_runs import WORDS, small_experiment
from feddecorr.cli.show import choose_runs
from feddecorr.collapse.statistics import Statistics
from feddecorr.config.overrides import read_overrides
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Update, from_bytes, to_bytes
from feddecorr.core.trust import STRANGER
from feddecorr.data.archives import collect
from feddecorr.data.arrow import ArrowReader
from feddecorr.data.features import read_features
from feddecorr.data.hugging_face import HuggingFace
from feddecorr.data.mnist import read_idx, write_idx
from feddecorr.data.npz import Npz
from feddecorr.data.pickles import load_pickle
from feddecorr.data.pictures import decode
from feddecorr.data.tables import TableFile
from feddecorr.errors import UserError
from feddecorr.models.weights import read_weights, weights_digest
from feddecorr.partition.external import read_split
from feddecorr.report.runs_page import write_report
from feddecorr.results.summary import read_summaries, write_summaries
from feddecorr.results.tables import load_runs, tabulate
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.runs.writer import RunWriter
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings, to_settings
from feddecorr.training.task import Task


@dataclass(frozen=True)
class Reader:
    """What reads, and whole inputs by their (file) names; `share` is that of the inputs it is given.

    A reader that starts a process for each file takes half a second where others take a millisecond.
    """

    whole: Mapping[str, bytes]
    read: Callable[[Path, str, bytes], object]
    share: float = 1.0


def _file(function: Callable[[Path], object]) -> Callable[[Path, str, bytes], object]:
    def read(folder: Path, name: str, content: bytes) -> object:
        (folder / name).write_bytes(content)
        return function(folder / name)

    return read


def _settings(_: Path) -> Reader:
    document = to_settings(*small_experiment("regularizers=feddecorr", "transforms=clip"))
    toml = 'rounds = 3\nmodel = "mlp"\n[training]\nlr = 0.1\n[partition]\nname = "dirichlet"\nalpha = 0.5\n'
    whole = {"experiment.json": json.dumps(document).encode(), "experiment.toml": toml.encode()}
    return Reader(whole, _file(lambda path: parse_settings(read_overrides([str(path)]), STRANGER)))


def _words(_: Path) -> Reader:
    def read(_: Path, __: str, content: bytes) -> object:
        words = content.decode(errors="surrogateescape").split("\n")
        return parse_settings(read_overrides([word for word in words if "=" in word]), STRANGER)

    return Reader({"words": "\n".join(WORDS).encode()}, read)


@contextmanager
def _broken(run: Path, name: str, content: bytes) -> Iterator[None]:
    """Let a file of a run be broken for a while."""
    before = (run / name).read_bytes()
    (run / name).write_bytes(content)
    try:
        yield
    finally:
        (run / name).write_bytes(before)


def _run(folder: Path) -> Reader:
    """Return what a run's directory gives to `show`, `report` and `records`."""
    whole = folder / "whole"
    list(run(*small_experiment("method=scaffold", "rounds=2"), whole))
    names = ("experiment.json", "environment.json", "federation.json", "rounds.jsonl", "weights.safetensors")
    contents = {name: (whole / name).read_bytes() for name in (*names, "roster.safetensors")}

    def read(folder: Path, name: str, content: bytes) -> None:
        with _broken(whole, name, content):
            directory = RunDirectory.open(whole)
            json.dumps(directory.to_dict(), allow_nan=False)
            read_summaries([whole])
            write_report([whole], folder / "report.html")

    return Reader(contents, read)


def _resumed(folder: Path) -> Reader:
    """Return what a run's directory gives to `resume`, up to the training."""
    whole = folder / "whole"
    experiment, options = small_experiment("method=scaffold", "rounds=2")
    list(run(experiment, options, whole))
    simulation = Simulation(experiment)
    start = simulation.federation.start()
    names = ("rounds.jsonl", "weights.safetensors", "federation.json", "server/2.safetensors")

    def read(_: Path, name: str, content: bytes) -> object:
        with _broken(whole, name, content), RunWriter(whole) as writer:
            return writer.take_up(simulation.federation, start)

    return Reader({name: (whole / name).read_bytes() for name in names}, read)


def _features(_: Path) -> Reader:
    z, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    npy, npz, packed, csv = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(npy, z)
    np.savez(npz, features=z, labels=y)
    np.savez_compressed(packed, features=z)
    np.savetxt(csv, np.column_stack([z, y]), delimiter=",", header="a,b,c,label", comments="")
    tensors = save({"features": torch.from_numpy(z), "labels": torch.from_numpy(y)})
    streams = {"z.npy": npy, "z.npz": npz, "packed.npz": packed, "z.csv": csv}
    whole = {name: stream.getvalue() for name, stream in streams.items()}
    columns = pd.DataFrame(z, columns=list("abc")).assign(label=y).to_parquet()
    return Reader({**whole, "z.safetensors": tensors, "z.parquet": columns}, _file(read_features), share=0.3)


def _tables(_: Path) -> Reader:
    """Return tables of features, as pandas writes them."""
    table = pd.DataFrame({"a": np.arange(20) / 7, "b": np.arange(20), "label": [f"class {n % 2}" for n in range(20)]})
    whole = {"t.csv": table.to_csv(index=False).encode(), "t.parquet": table.to_parquet(index=False)}
    return Reader(whole, _file(lambda path: TableFile(path=path).load()), share=0.1)


def _evidence(_: Path) -> Reader:
    """Return what nodes tell of their representations."""
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 3)))
    whole = {"evidence": Evidence(Statistics.of(z).moments, 7).to_bytes()}
    return Reader(whole, lambda _, __, content: Evidence.from_bytes(content).diagnosis())


def _own_arrays(_: Path) -> Reader:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros((20, 4, 4), np.uint8), y=np.arange(20) % 2)
    return Reader({"own.npz": stream.getvalue()}, _file(lambda path: Npz(path=path).load()))


def _weights(_: Path) -> Reader:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(3, 4), "b": torch.zeros(2)}, stream)
    old = io.BytesIO()
    torch.save({"a": torch.ones(3, 4), "b": torch.zeros(2)}, old, _use_new_zipfile_serialization=False)
    tensors = save({"a": torch.ones(3, 4), "b": torch.zeros(2)}, {"round": "1"})
    whole = {"w.safetensors": tensors, "w.pt": stream.getvalue(), "old.pt": old.getvalue()}
    return Reader(whole, _file(lambda path: weights_digest(read_weights(path))))


def _idx(_: Path) -> Reader:
    whole = {"idx": write_idx(np.arange(60, dtype=np.uint8).reshape(3, 4, 5))}
    return Reader(whole, lambda _, name, content: read_idx(name, content, 3))


OLD_PICKLE = (
    b"\x80\x02}q\x00(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87Rq\x04"
    b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x05U\x02u1K\x00K\x01\x87Rq\x06(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    b"\x89U\x06pixelstq\x07bU\x06labelsq\x08]q\x09(K\x00K\x01eu."
)
"""A batch of two examples with three bytes each, as Python 2 wrote them."""


def _pickles(_: Path) -> Reader:
    batch = {"data": np.zeros((2, 12), np.uint8), "labels": [0, 1]}
    whole = {"protocol 4": pickle.dumps(batch, protocol=4), "protocol 2": OLD_PICKLE}
    return Reader(whole, lambda _, name, content: load_pickle(name, content))


def _archives(_: Path) -> Reader:
    plain, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name in ("a/one", "a/two"):
            member = tarfile.TarInfo(name)
            member.size = 100
            tar.addfile(member, io.BytesIO(bytes(100)))
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/one", bytes(100))
        archive.writestr("a/two", b"x" * 100)
    whole = {"a.tar": plain.getvalue(), "a.tar.gz": gzip.compress(plain.getvalue()), "a.zip": zipped.getvalue()}
    return Reader(whole, _file(lambda path: collect(path, lambda _: True)))


def _pictures(_: Path) -> Reader:
    whole = {}
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        stream = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(stream, kind, exif=exif)
        whole[kind] = stream.getvalue()
    deep = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(deep, "PNG")
    whole |= {"deep PNG": deep.getvalue(), "PGM": b"P5 8 8 65535\n" + bytes(128)}
    return Reader(whole, lambda _, name, content: decode(name, content, size=8))


def _hugging_face(folder: Path) -> Reader:
    """Return a data set as Hugging Face's library keeps it: rows of pictures and labels."""
    stream = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(stream, "PNG")
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a", "b"]}}
    note = {"huggingface": json.dumps({"info": {"features": features}})}
    kinds = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())]
    rows = {"image": [{"bytes": stream.getvalue(), "path": None}] * 10, "label": [0, 1] * 5}
    table = pa.table(rows, pa.schema(kinds, note))
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    home = folder / "set"
    home.mkdir()
    tables = ArrowReader()

    def read(_: Path, name: str, content: bytes) -> object:
        for file in home.iterdir():
            file.unlink()
        (home / name).write_bytes(content)
        data = HuggingFace(path=home)
        return data._decode(data._find(), tables)  # without the cache, which would know most of them

    return Reader({"train.parquet": parquet.getvalue(), "train.arrow": arrow.getvalue()}, read, share=0.1)


def _splits(_: Path) -> Reader:
    return Reader({"split.json": b"[\n[0, 1, 2],\n[3, 4]\n]\n"}, _file(read_split))


def _messages(_: Path) -> Reader:
    state = {"w": torch.ones(2, 3)}
    update = Update(1, 2, 3, 0.5, state, {}, {}, {"cross_entropy": 1.0}, {"cross_entropy": [1.0, 0.5]})
    kinds: dict[str, Broadcast | Update] = {"broadcast": Broadcast(1, state, {}, {}), "update": update}
    task = json.dumps(Simulation(small_experiment()[0]).task.to_dict()).encode()

    def read(_: Path, name: str, content: bytes) -> object:
        if name == "task":
            try:
                document = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise UserError(str(error)) from error  # whoever takes bytes from elsewhere reads JSON first
            return Task.from_dict(document)
        return from_bytes(Update if name == "update" else Broadcast, content)

    return Reader({**{name: to_bytes(message) for name, message in kinds.items()}, "task": task}, read)


def _records(folder: Path) -> Reader:
    whole = folder / "whole"
    list(run(*small_experiment("rounds=2"), whole))
    write_summaries(folder / "whole.jsonl", read_summaries([whole]))

    def read(path: Path) -> None:
        tabulate(choose_runs([path], None), by=[], columns=None, measure="accuracy", statistic="best")
        load_runs(path)

    return Reader({"r.jsonl": (folder / "whole.jsonl").read_bytes()}, _file(read))


READERS: dict[str, Callable[[Path], Reader]] = {
    "archives": _archives,
    "evidence": _evidence,
    "features": _features,
    "hugging face": _hugging_face,
    "idx": _idx,
    "messages": _messages,
    "own arrays": _own_arrays,
    "pickles": _pickles,
    "pictures": _pictures,
    "records": _records,
    "resumed runs": _resumed,
    "runs": _run,
    "settings": _settings,
    "splits": _splits,
    "tables": _tables,
    "weights": _weights,
    "words": _words,
}
"""By name; each is made in a folder of its own."""
