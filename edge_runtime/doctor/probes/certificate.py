"""The certificate that the server is set up to serve."""

from __future__ import annotations

import shutil
import ssl
import subprocess

from edge_runtime.doctor.facts import Certificate
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes.settings import configured
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.server.tls import certificate as configured_certificate


def certificate(machine: Machine, config: str) -> Certificate:
    """Loaded with its key as the server does; its dates are read by openssl, where that is."""
    admitting = configured(machine, config).admitting
    try:
        if configured_certificate(admitting) is None:
            return Certificate()
    except EdgeRuntimeError as error:
        return Certificate(path=admitting.tls_cert, trouble=error.message, fix=error.fix)
    begins, ends = _dates(admitting.tls_cert)
    return Certificate(path=admitting.tls_cert, begins=begins, ends=ends)


def _dates(path: str) -> tuple[float | None, float | None]:
    openssl = shutil.which("openssl")
    if openssl is None:
        return None, None
    line = [openssl, "x509", "-noout", "-startdate", "-enddate", "-in", path]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=5)
    told = dict(each.split("=", 1) for each in done.stdout.splitlines() if "=" in each)
    return _seconds(told.get("notBefore")), _seconds(told.get("notAfter"))


def _seconds(date: str | None) -> float | None:
    return None if date is None else float(ssl.cert_time_to_seconds(date))
