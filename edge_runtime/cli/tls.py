"""`edge-runtime tls`: a certificate for a server on a network of one's own."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.cli.options import group
from edge_runtime.errors import ConfigError, MissingExtra, StoreUnwritable

EXAMPLES = """\
edge-runtime tls self-signed                              cert.pem and key.pem for this machine
edge-runtime tls self-signed --host 192.168.1.20 -o tls   for the address that clients use
edge-runtime serve --host 0.0.0.0 --tls-cert tls/cert.pem --tls-key tls/key.pem"""

DAYS = 825
"""How long it is good: the longest that every system accepts."""

tls = group("Make a certificate that encrypts what clients send.")


@tls.callback()
def _group() -> None:
    """A group, though it has one command so far."""


@tls.command("self-signed")
def self_signed(
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name or address that clients use; often [this machine's]."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")
    ] = Path(),
    again: Annotated[bool, typer.Option("--again", help="Replace the files there.")] = False,
) -> None:
    """Make cert.pem and key.pem for a server whose clients are told to trust them.

    With a name that the world knows, use a certificate of an authority instead: clients
    trust it as they are.
    """
    names = list(dict.fromkeys(host or _own_names()))
    certificate, key = output / "cert.pem", output / "key.pem"
    if not again and (certificate.exists() or key.exists()):
        raise ConfigError(f"{output} has a certificate already", "Add --again to replace it.")
    _make(names, certificate, key)
    typer.echo(f"{certificate}, {key}: good for {DAYS} days, for {', '.join(names)}")
    typer.echo(f"SHA-256 {_fingerprint(certificate)}")
    typer.echo(
        f"Next: edge-runtime serve --host 0.0.0.0 --tls-cert {certificate} --tls-key {key}\n"
        f"then, with the copy of cert.pem that a client has: SSL_CERT_FILE=cert.pem "
        f"edge-runtime listen --mic --url wss://{_bracketed(names[0])}:8765/v1/stream"
    )


def _make(names: list[str], certificate: Path, key: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise MissingExtra("openssl is not installed", "Run: sudo apt install openssl")
    alternatives = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names)
    try:
        certificate.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tls-", dir=certificate.parent) as folder:
            made = [Path(folder) / "cert.pem", Path(folder) / "key.pem"]
            line = [
                openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", str(DAYS), "-subj", "/CN=edge-runtime",
                "-addext", f"subjectAltName={alternatives}",
                "-addext", "extendedKeyUsage=serverAuth",
                "-out", str(made[0]), "-keyout", str(made[1]),
            ]  # fmt: skip
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise ConfigError(
                    f"openssl made no certificate for {alternatives}: {reason}",
                    "Give --host names and addresses, such as jetson.local or 192.168.1.20.",
                )
            made[1].chmod(0o600)
            made[0].replace(certificate)
            made[1].replace(key)
    except OSError as error:
        if isinstance(error, StoreUnwritable):
            raise
        raise StoreUnwritable(
            f"{certificate.parent} cannot be written: {error.strerror}",
            "Choose another folder: --output FOLDER",
        ) from None


def _own_names() -> list[str]:
    machine = socket.gethostname().partition(".")[0]
    return [f"{machine}.local", machine, "localhost", "127.0.0.1", "::1"]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _fingerprint(certificate: Path) -> str:
    import hashlib
    import ssl

    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, 64, 2)).upper()
