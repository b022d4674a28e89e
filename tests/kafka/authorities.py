"""Certificates for tests: one authority, and whom it vouches for; made by openssl in a moment."""

from __future__ import annotations

import subprocess
from pathlib import Path

KEY_PASSWORD = "key-pass"


def _openssl(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments],
        check=False,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


class Authority:
    """Signs for 127.0.0.1; files are PEM, chain and key of one owner in one file."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory, self._name = directory, name
        self.file = directory / f"{name}.pem"
        subject = ("-subj", f"/CN={name}", "-days", "2")
        _openssl(
            directory, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject,
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip

    def signs(self, owner: str, host: str = "127.0.0.1", key_password: str = "") -> Path:
        """File with certificate and private key (PKCS #8) of an owner."""
        here = self._directory
        (here / f"{owner}.ext").write_text(f"subjectAltName=IP:{host}\n")
        protected = ("-passout", f"pass:{key_password}") if key_password else ("-nodes",)
        _openssl(
            here, "req", "-newkey", "rsa:2048", *protected, "-subj", f"/CN={owner}",
            "-keyout", f"{owner}.key", "-out", f"{owner}.csr",
        )  # fmt: skip
        _openssl(
            here, "x509", "-req", "-in", f"{owner}.csr", "-CA", f"{self._name}.pem",
            "-CAkey", f"{self._name}.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{owner}.ext", "-out", f"{owner}.crt",
        )  # fmt: skip
        both = here / f"{owner}.pem"
        both.write_text((here / f"{owner}.crt").read_text() + (here / f"{owner}.key").read_text())
        return both
