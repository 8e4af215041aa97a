"""A real federation of Flower on this machine's loopback: a SuperLink and SuperNodes, with TLS and keys."""

from __future__ import annotations

import configparser
import datetime
import ipaddress
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from ssl import create_default_context
from typing import Any
from urllib.error import HTTPError

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PROGRAMS = Path(sys.executable).parent
PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
UNIT = re.compile(r"^```text\n# (\w+)\.service\n(.*?)^```$", re.M | re.S)


def documented_units() -> dict[str, dict[str, str]]:
    """Return the units of systemd that the page on deployment shows, by name: the settings of their services."""
    found = {}
    for name, text in UNIT.findall(PAGE.read_text()):
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(text)
        found[name] = dict(parser["Service"])
    return found


class Loopback:
    """The processes of a federation, each in a session of its own; `close` ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        self._units = documented_units()
        self.processes: list[subprocess.Popen[bytes]] = []
        for name in ("flwr", "logs", "cwd"):
            (folder / name).mkdir()
        write_certificates(folder)
        self.proxy = free_port()
        links = {"lab": self.port, "proxy": self.proxy}
        config = "".join(
            f'[superlink.{name}]\naddress = "127.0.0.1:{port}"\nroot-certificates = "{folder / "ca.crt"}"\n'
            for name, port in links.items()
        )
        (folder / "flwr" / "config.toml").write_text(f'[superlink]\ndefault = "lab"\n\n{config}')
        self.superlink = self.start_superlink()
        self.start("proxy", *self._command("proxy"), "--host", "127.0.0.1")
        self.wait_for(lambda: self.ask(self.proxy, "/health") == 200)

    def start_superlink(self) -> subprocess.Popen[bytes]:
        """Start the SuperLink, which keeps what it knows in a file; the same command starts it again."""
        return self.start("superlink", *self._command("superlink"))

    def _command(self, unit: str) -> list[str]:
        """Return the documented command of a part of the federation, with this one's files and ports."""
        here = {
            "/opt/feddecorr/bin/": "",
            "/etc/feddecorr/": f"{self.folder}/",
            "/var/lib/feddecorr": str(self.folder),
            "superlink.example.org:9443": f"127.0.0.1:{self.proxy}",
            "8443": str(self.port),
            "9443": str(self.proxy),
            "9094": str(free_port()),
        }
        words = shlex.split(self._units[unit]["ExecStart"])
        for documented, ours in here.items():
            words = [word.replace(documented, ours) for word in words]
        return words

    def start(self, name: str, program: str, *words: object) -> subprocess.Popen[bytes]:
        """Start one of Flower's programs; its output goes to a log of that name."""
        with (self.folder / "logs" / f"{name}.txt").open("ab") as log:
            process = subprocess.Popen(
                [PROGRAMS / program, *map(str, words)],
                cwd=self.folder / "cwd",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def ask(self, port: int, path: str) -> int:
        """Return what is answered there: the code of HTTP, or 0 where nobody is."""
        context = create_default_context(cafile=str(self.folder / "ca.crt"))
        data = None if path == "/health" else b""
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", data, 60, context=context) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except OSError:
            return 0

    def register(self, node: int) -> None:
        """Make the keys of a SuperNode, and let the SuperLink know the public one."""
        write_node_keys(self.folder, node)
        assert self.flwr("supernode", "register", self.folder / f"node{node}.pub", "lab").returncode == 0

    def flwr(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of Flower to its end."""
        command = [PROGRAMS / "flwr", *words]
        return subprocess.run(
            command, env=self.environment, check=False, capture_output=True, text=True, cwd=self.folder / "cwd"
        )

    def start_node(self, node: int, config: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Start a SuperNode, which connects through the proxy."""
        words = self._command("supernode")
        words[words.index("--node-config") + 1] = " ".join(f"{name}={value!r}" for name, value in config.items())
        return self.start(f"node{node}", *(word.replace("/node0", f"/node{node}.key") for word in words))

    def wait_for(self, condition: Callable[[], object], seconds: float = 600) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.2)

    def logs(self) -> str:
        """Return the ends of all logs."""
        files = sorted((self.folder / "logs").iterdir())
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def descendants(self, process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
        """Return the processes of that program that came of another."""
        try:
            found = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [each for each in found if name in _words(each)]

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and those that came of it, each by its number."""
        try:
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for each in family:
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        process.wait()

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self.processes):
            self.kill(process)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def write_certificates(folder: Path) -> None:
    """Write a certificate authority and a certificate for the loopback."""
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    root = x509.BasicConstraints(ca=True, path_length=None)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    of_root = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    (folder / "ca.crt").write_bytes(certificate(issuer, authority, root, usage, of_root))
    (folder / "server.crt").write_bytes(certificate(subject, server, x509.SubjectAlternativeName(names), of_authority))
    (folder / "server.key").write_bytes(
        server.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def write_node_keys(folder: Path, node: int) -> None:
    """Write the keys of a SuperNode, as `ssh-keygen -t ecdsa -b 384` does."""
    key = ec.generate_private_key(ec.SECP384R1())
    (folder / f"node{node}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    )
    (folder / f"node{node}.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
