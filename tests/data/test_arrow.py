"""Parquet and arrow files of strangers: rows, or one sentence, whatever they do to the library that reads them."""

import base64
import io
import random
import re
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.torture.broken_inputs import mutate

from feddecorr.core.limits import ALWAYS, MEMBER
from feddecorr.data import arrow
from feddecorr.data.arrow import CRASHED, ArrowReader
from feddecorr.errors import RunError, UserError

CRASHES = {
    "takes all memory.arrow": (
        b"c-s5_|Ns9Dj0_9{3?RV8z{kMGz|Oz{WB~yq3tXHBNU}i1SAf|-X&?rPa{x(@90!nH1C`4G;%cSLytI5JD}`#MwA93s(xTL2FefuN"
        b"F+CN;GECJqHZrhMQ1S$e)aocG<s>Gh=73ejmsA#jR4F;<Bo-I@fW?6d@)C2w#zZS6g1AXav9&+|awInpXOyO=XXd4+B_^jbFah}v"
        b"Q0Ei?y$N(M6UaLXP%#i-1vwRDG}Id$V9$dAqXUBu!wQH#UI`?9AaetNSOlsc>>VJz0I2o`L_I6W9tk9Sz-~w^$pEoW0M!Tpb#s7&"
        b"8Wey6&|qd{0nsvO?n|mHNi7D8vB1TFM*P=cgt&nL91UVX(^$cN0GY_Z%mTK51v69uFybVj(FBUZH4Km_=VCwrP6pzE4wN>4((jlc"
        b"v;x#VD3?Kl8C87*Gpaeb_yG*CBnb%%E;Rdb@wsrwGcb4q@iZWQ2yzWD<jR5g5D@bMof-kei<uC<=nU|4=jD<D8N%!7;SvN+96$_C"
        b"84pt)h65=fPZviR9a1qTIVGWmiBIFKlNd9Dus%a~nAW-;kZMm?KbLh*2~C(rCb#BmhG*TLaAsK`Z}ObEi<gTn_q{hih<T1*RjnC&"
        b"(6fuJ`^^#)EJY;0aqMETjo4FnAw=ZHrI;J6s<E3G%<94jx{fSYjT%Kwqw-2~a_H(v28sbAmH7X`B_RU?0M5n&82"
    ),
    "reads beyond its end.arrow": (
        b"c-s5_|Ns9Dj0_9{3?RV8z{kMG;L5-OWB~yq3tXHBNU}i1SAf|-X&?rPa{x(@90!nH!@zLT0Z8WnakWxrURu7Al|r>rT54iRX;Er1"
        b"n3I{Cn4St|#g|kTfLKbNV4+$a1*M$Cq|_W#N#~rz;$k1LxQ;?}td&BvQX-J0q^GA3L={T0wLk!JCN~ggl%}U==B1}4CZ{qmF)%nK"
        b"G<62}x$|;Kfn3h(>ERLtb}<lx2!@9#55s|!kf)1dNX4Awl!O*0K8>?ZV$2M}`V8G+TI+g1syto&T-J>QqZlX#j8x(S)8&5<4FH+N"
        b"bSe"
    ),
    "aborts.parquet": (
        b"c-qZXy>HV{5PuGi38kP?{45(~h@#disHI6E;X`G3PTJIM=toMM4~oEX9NWlFL!6R^staO4Ff$?k00sucz`)1|OsE55LE>*<=Dla9"
        b"DQXua22RP{y}RH2-rc>ZT}Fi@WZ^3YzGU(+1i>%>OB)LSfTzogxl;q@2C#cdoy!)mjW8?|eh+@seiZR(Sk0na+b{Lny(gj5W1kh_"
        b"7&to#o~>Va^BiY^I<uI4quhH80UU<HIOO3F<RBMKgRzC9xXG8OzoZxcCE1xX_;4Z?!kP~;Jiwa)FqFrN>;-Fh8V>hI+1cfB^tedz"
        b"3_-`>NS+j7^w2a2gb6Gz=b_jy7bCrl80ldJFm^<g_BAl#-@}Aohaf9$q=3kIx@EW;WI>7(!?vrL2KM3LXh;lKyKTeseYUB!tx=GV"
        b"k|tP^bhN7B0D+gH(zFbsa8ODCZb%yQIs94}5_sV)E4*XnkBl7o-ycpI_g{;wc?g?n;rmI6lhSx)7<hO{x)eI&EukWRW91KQG|eAD"
        b"11Jk2p)9P=66}x?d|`w=M&1j{FT#KKsD~~)&q*@9O8CkNyc`jJau_6@w6;vsZkTmVH$-PAZa3<i@$0djc-_$2TP?$*2Rat@?zX#4"
        b";>A@O+8vL@X}5nSGmhqYc^b!nhUQY9+i{H?tMNO#Sb#W)3WcTOb^n(peqtwyTtNy#Xa)JQfY4>6m}nLu6J<;qQ<OjQ9b#wp^9yEh"
        b"?y=CkN~}UH$tzbW5m7mkSFWh8vsH1g+DkU^D^9soNb2tTBlZ5KX>{kC)#7ZUvZ|)lInOR#Dx~z>8pa}fwV1RjQ)_m8wPUL8wpDi5"
        b"y`ZLEn{zs}CNrO{=4K!1i6CziY|5$@eg0y1-tuFrT`DE7)k_K5eulJ`vyzpmTC?ib+;VZzp(FU6`+6>mmqx~!$<U!Qs6RiIHG=fY"
        b"#d)Vn&nC)J5<P$tnWg%{GNvMTt|ZFA(t1nG^q7#cvR|P2vy-$*o^EQtevN{1{rUs_DpoD$KV+BSw<#IEs*IElx*0UzD^e7HRDHkx"
        b"K*QyRlc<#XB?t01fEa6Ptp{61dqQtEC$v^;vlDx0v^;yW5t~Y1Ok7M#)A+BJ{{g>P0G9DTtlt^?b>a"
    ),
}
"""Mutations that a fuzzer found: at least one way to read each of them with pyarrow 26 brings the process down."""


@pytest.fixture(scope="module")
def tables() -> Iterator[ArrowReader]:
    with ArrowReader() as found:
        yield found


def pictures(count: int = 100) -> pa.Table:
    rows = [{"bytes": bytes([number]) * 300, "path": None} for number in range(count)]
    return pa.table({"image": rows, "label": list(range(count))})


def flat() -> pa.Table:
    words = [f"class {number % 3}" for number in range(10)]
    return pa.table({"a": np.arange(10) / 7, "b": words, "label": pa.array(words).dictionary_encode()})


def write_arrow(table: pa.Table, compression: str | None = None) -> bytes:
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return stream.getvalue()


def write_parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {"a.arrow": write_arrow, "a.parquet": write_parquet}
WHOLE = {"flat.parquet": write_parquet(flat())} | {name: write(pictures(10)) for name, write in WRITERS.items()}


def read_all(tables: ArrowReader, path: Path) -> list[Any]:
    """Read a file in each of the ways there are; return what came, or the sentence."""
    found: list[Any] = []
    ways: list[Callable[[], Any]] = [lambda: tables.columns(path), lambda: list(tables.rows(path, ["image", "label"]))]
    if path.name == "flat.parquet":
        ways[1] = lambda: tables.table(path)
    for way in ways:
        try:
            found.append(way())
        except UserError as error:
            found.append(str(error))
    assert all(said.startswith(str(path)) and len(said) < 600 for said in found if isinstance(said, str))
    return found


@pytest.mark.parametrize("name", CRASHES)
def test_a_file_that_crashed_the_library_ends_in_a_sentence(name: str, tables: ArrowReader, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(zlib.decompress(base64.b85decode(CRASHES[name])))
    assert any(isinstance(found, str) for found in read_all(tables, tmp_path / name))


@pytest.mark.parametrize("name", WHOLE)
def test_whatever_is_changed_there_are_rows_or_a_sentence(name: str, tables: ArrowReader, tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(300):
        (tmp_path / name).write_bytes(mutate(WHOLE[name], chance))
        read_all(tables, tmp_path / name)
    (tmp_path / name).write_bytes(WHOLE[name])
    assert not any(isinstance(found, str) for found in read_all(tables, tmp_path / name))


@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_as_they_were_written(name: str, tables: ArrowReader, tmp_path: Path) -> None:
    table = pa.table(
        {
            "picture": [{"bytes": b"\x00\xff", "path": None}, None, {"bytes": b"", "path": "é"}] * 50,
            "label": [1, None, -(2**63)] * 50,
            "other": [[1], None, []] * 50,
            "share": [0.5, None, float("inf")] * 50,
        }
    )
    (tmp_path / name).write_bytes(WRITERS[name](table))
    wanted = [(row["picture"], row["label"], row["share"]) for row in table.to_pylist()]
    assert list(tables.rows(tmp_path / name, ["picture", "label", "share"])) == wanted
    assert [row for (row,) in tables.rows(tmp_path / name, ["other"])][:3] == ["a list", None, "a list"]
    assert tables.columns(tmp_path / name)[0]["picture"] == {"bytes", "path"}
    with pytest.raises(UserError, match=r"a\..*: no column 'x', unlike in other files"):
        list(tables.rows(tmp_path / name, ["x"]))


def test_a_table_is_what_the_library_makes_of_it(tmp_path: Path) -> None:
    """Column by column, as numbers or as the words that labels are."""
    count = 70_000
    places = np.arange(count)
    gaps = places % 3 == 0
    columns = {
        "whole": pa.array(places * 7 - 3),
        "with gaps": pa.array(places, mask=gaps),
        "small": pa.array((places % 100).astype(np.uint8), mask=gaps),
        "half": pa.array((places / 7).astype(np.float16)),
        "single": pa.array((places / 7).astype(np.float32), mask=gaps),
        "yes": pa.array(gaps),
        "word": pa.array([f"class {place % 5}" for place in places]),
        "often": pa.array([f"é {place % 5}" for place in places]).dictionary_encode(),
        "code": pa.array(places % 5).dictionary_encode(),
        "time": pa.array(places.astype("M8[ms]")),
        "day": pa.array([date(2020, 1, 1 + place % 9) for place in places]),
        "price": pa.array([Decimal(int(place % 9)) / 4 for place in places]),
        "raw": pa.array([bytes([place % 9]) for place in places]),
        "here": pa.array(places * 1000, pa.timestamp("ms", tz="UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=30_000)
    with ArrowReader() as reader:
        found = pd.DataFrame(dict(reader.table(tmp_path / "a.parquet")))
    wanted = pq.read_table(tmp_path / "a.parquet").to_pandas()
    assert list(found.columns) == list(wanted.columns)
    for name in columns:
        if wanted[name].dtype.kind in "biufM" and name != "here":
            pd.testing.assert_series_equal(found[name], wanted[name])
        else:
            assert found[name].dtype.kind not in "biufM"
            assert found[name].astype(str).tolist() == wanted[name].astype(str).tolist()


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"x": pa.array([], pa.float64()), "label": pa.array([], pa.int8())}), tmp_path / "a.parquet"
    )
    with ArrowReader() as reader:
        assert [values.dtype.kind for _, values in reader.table(tmp_path / "a.parquet")] == ["f", "i"]


def test_zeros_that_are_packed_are_refused_with_the_limit(tables: ArrowReader, tmp_path: Path) -> None:
    zeros = pa.table({"image": [bytes(1 << 20)] * 300, "label": [0] * 300})
    for name, content in {"a.arrow": write_arrow(zeros, "zstd"), "a.parquet": write_parquet(zeros)}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=r"refused, for it unpacks to more than [0-9,]+ bytes") as said:
            list(tables.rows(tmp_path / name, ["image"]))
        (limit,) = re.findall(r"[0-9,]+(?= bytes)", str(said.value))
        assert ALWAYS <= int(limit.replace(",", "")) < 2 * MEMBER


def process_of(tables: ArrowReader) -> "subprocess.Popen[bytes]":
    assert tables._process is not None
    return tables._process


def test_the_process_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(256)))
    with ArrowReader() as tables:
        rows = tables.rows(tmp_path / "a.parquet", ["image"])
        next(rows)
        process = process_of(tables)
        rows.close()  # type: ignore[attr-defined]
        assert process.returncode is not None
        assert len(list(tables.rows(tmp_path / "a.parquet", ["image"]))) == 256
        again = process_of(tables)
    assert again.returncode is not None


WAITING = """
import sys, time
from pathlib import Path
from feddecorr.data.arrow import ArrowReader
tables = ArrowReader()
rows = tables.rows(Path(sys.argv[1]), ["image"])
next(rows)
print(tables._process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_the_process_ends_with_the_one_that_asked(tmp_path: Path) -> None:
    """Also if that one is killed, and with rows left that nobody wants."""
    for count in (10, 2560):
        (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(10)))
        pq.write_table(pa.concat_tables([pictures(10)] * (count // 10)), tmp_path / "a.parquet")
        command = [sys.executable, "-c", WAITING, str(tmp_path / "a.parquet")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            place = Path("/proc") / asking.stdout.readline().strip()
            assert place.exists()
            asking.kill()
        end = time.monotonic() + 30
        while place.exists() and "\nState:\tZ" not in (place / "status").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        assert time.monotonic() < end


def test_neither_the_working_directory_nor_the_environment_matters(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(3)))
    for name in ("pyarrow", "json", "struct", "numpy", "feddecorr"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    words = "from pathlib import Path; from feddecorr.data.arrow import ArrowReader as T"
    program = f"{words}; t = T(); print(len(list(t.rows(Path('a.parquet'), ['image'])))); t.close()"
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert not (tmp_path / "run").exists()


def test_no_room_for_another_process_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(3)))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ArrowReader() as tables:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            with pytest.raises(RunError, match=r"a\.parquet: .*ulimit -n"):
                tables.columns(tmp_path / "a.parquet")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


START = f"import os, signal, sys, time; sys.path.append({str(Path(arrow.__file__).parent)!r})\n"
SENT = "from arrow_process import LENGTHS; out = sys.stdout.buffer; sys.stdin.readline()\n"
LIARS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": CRASHED,
    "os.abort()": CRASHED,
    "sys.exit(0)": CRASHED,
    "print('terminate called after throwing')": "refused, for it unpacks to more than",
    "os.kill(os.getpid(), signal.SIGXCPU)": "takes too long",
    f"{SENT}out.write(LENGTHS.pack(2**63, 0))": "refused, for it unpacks to more than 67,108,864 bytes",
    f"{SENT}out.write(LENGTHS.pack(2, 2**60))": "refused, for it unpacks to more than 67,108,864 bytes",
    f"{SENT}out.write(LENGTHS.pack(9, 0) + b'not JSON.')": "is not a readable table",
    f"{SENT}out.write(LENGTHS.pack(2, 0) + b'[]')": "",
    f"{SENT}out.write(LENGTHS.pack(14, 0) + b'{{\"last\": null}}')": "",
    f"{SENT}out.write(LENGTHS.pack(13, 0) + b'{{\"columns\": 5}}')": "",
    f"{SENT}out.write(LENGTHS.pack(50000, 0) + b'[' * 50000)": "is not a readable table",
}


@pytest.mark.parametrize("program", LIARS)
def test_whatever_the_process_does_there_is_a_sentence(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(3)))
    monkeypatch.setattr(arrow, "COMMAND", (sys.executable, "-P", "-c", START + program))
    with ArrowReader() as tables:
        ways = (tables.columns, tables.table, lambda path: list(tables.rows(path, ["image"])))
        for way in ways:
            with pytest.raises(UserError, match=re.escape(str(tmp_path / "a.parquet"))) as said:
                way(tmp_path / "a.parquet")
            assert LIARS[program] in str(said.value)
    assert capfd.readouterr() == ("", "")


def test_without_the_library_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(3)))
    monkeypatch.setattr(arrow, "COMMAND", (sys.executable, "-I", "-S", *arrow.COMMAND[2:]))
    with (
        ArrowReader() as tables,
        pytest.raises(UserError, match=r"^parquet and arrow files are read by pyarrow: pip inst"),
    ):
        tables.columns(tmp_path / "a.parquet")


def test_limits_hold_in_the_process(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(write_parquet(pictures(3)))
    with ArrowReader() as tables:
        tables.columns(tmp_path / "a.parquet")
        limits = Path(f"/proc/{process_of(tables).pid}/limits").read_text()
        assert re.search(r"Max core file size +0 ", limits)
        assert re.search(r"Max cpu time +6[0-9] ", limits)
        assert re.search(r"Max address space +[0-9]+ ", limits)
