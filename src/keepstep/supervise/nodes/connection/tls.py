# SPDX-License-Identifier: Apache-2.0
"""TLS 1.3 between the agents of one run, in which both sides prove that they know the run's secret.

Every agent derives the same key and the same certificate from the secret, shows that certificate, and trusts no other
one. Nothing has to be handed out, and no name or clock is part of the proof: who holds the secret belongs to the run.
TLS signs a server's and a client's part differently, so nobody can answer an agent with its own words.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from keepstep.errors import UserError
from keepstep.supervise.nodes.connection.secret import Secret

PURPOSE = b"keepstep: the key of a run's agents, 1"
NAME = "keepstep run"
SERIAL = 1
VALID = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
"""Whatever a node's clock says."""


@lru_cache(maxsize=4)
def contexts(secret: Secret) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a leader listens with, and what an agent connects with."""
    key, certificate = derived(secret)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _as_file(key + certificate) as path:
        for context in (server, client):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(path)
            context.load_verify_locations(cadata=certificate.decode())
    server.num_tickets = 0  # a connection is never resumed
    return server, client


def derived(secret: Secret) -> tuple[bytes, bytes]:
    """Key and certificate as PEM: the same bytes on every node."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        hint = "pip install 'keepstep[nodes]'"
        raise UserError("several nodes need the cryptography package", hint=hint) from error
    seed = HKDF(hashes.SHA256(), 32, salt=None, info=PURPOSE).derive(secret.reveal().encode())
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(SERIAL)
        .not_valid_before(VALID[0])
        .not_valid_after(VALID[1])
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    plain = serialization.NoEncryption()
    return (
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        certificate.public_bytes(serialization.Encoding.PEM),
    )


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A file that only this user can open, gone afterwards: ``ssl`` takes a key from nothing else."""
    handle = _in_memory(data)
    if handle is not None:
        try:
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    with tempfile.TemporaryDirectory(prefix="keepstep-") as folder:  # for this user only
        path = str(Path(folder, "key"))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
        yield path


def _in_memory(data: bytes) -> int | None:
    """A file without a name, which also works on a full disk; None where the system has none."""
    try:
        handle = os.memfd_create("keepstep", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None
    if os.path.exists(f"/proc/self/fd/{handle}") and os.write(handle, data) == len(data):
        return handle
    os.close(handle)
    return None
