# SPDX-License-Identifier: Apache-2.0
"""A real mount that stops answering: a FUSE file system of eight files, in a mount namespace of its own.

``python silent_mount.py FOLDER WHAT COMMAND...`` mounts it at FOLDER and runs COMMAND. WHAT never gets an answer: some
files, when they are read (``b.jsonl,c.jsonl``), ``readdir``, when a folder is listed, or ``everything``. A request that
was taken and never answered cannot be interrupted, not even by SIGKILL: the process lives until the mount is gone.
Started with ``unshare --user --map-root-user --mount``, nothing outside sees the mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading

FILES = {f"{letter}.jsonl": b'{"a": 1}\n' * (number + 1) for number, letter in enumerate("abcdefgh")}
NAMES = list(FILES)
HEADER = struct.Struct("<IIQQIIII")
ANSWER = struct.Struct("<IiQ")
LOOKUP, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 3, 14, 15, 18, 25, 26, 27, 28, 29
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42


def attributes(node: int) -> bytes:
    size = 0 if node == 1 else len(FILES[NAMES[node - 2]])
    mode, links = (0o40755, 2) if node == 1 else (0o100644, 1)
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


def entries(offset: int) -> bytes:
    found = b""
    for place, name in enumerate(NAMES):
        if place >= offset:
            text = name.encode()
            found += struct.pack("<QQII", place + 2, place + 1, len(text), 8) + text + bytes(-len(text) % 8)
    return found


def answer(code: int, node: int, body: bytes) -> bytes | int:
    """What a healthy file system says; a number is an error."""
    if code == INIT:
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0, 0)
    if code == LOOKUP:
        name = body.rstrip(b"\0").decode()
        if name not in FILES:
            return -errno.ENOENT
        found = NAMES.index(name) + 2
        return struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + attributes(found)
    if code == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if code in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if code in (READ, READDIR):
        offset, length = struct.unpack_from("<QI", body, 8)
        return (entries(offset) if code == READDIR else FILES[NAMES[node - 2]][offset:])[:length]
    return b"" if code in (RELEASE, RELEASEDIR, FLUSH) else -errno.ENOSYS


def serve(device: int, silent: str) -> None:
    while True:
        request = os.read(device, 1 << 17)
        _, code, unique, node, *_ = HEADER.unpack_from(request)
        if code in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        reading = code == READ and NAMES[node - 2] in silent.split(",")
        listing = code == READDIR and silent == "readdir"
        if reading or listing or (silent == "everything" and code != INIT):
            continue
        said = answer(code, node, request[HEADER.size :])
        body = said if isinstance(said, bytes) else b""
        failed = said if isinstance(said, int) else 0
        os.write(device, ANSWER.pack(ANSWER.size + len(body), failed, unique) + body)


def main() -> int:
    folder, silent, *command = sys.argv[1:]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"silent", os.fsencode(folder), b"fuse.silent", 6, options):
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        return 77
    threading.Thread(target=serve, args=(device, silent), daemon=True).start()
    status = subprocess.run(command).returncode
    sys.stdout.flush()
    os._exit(status)  # the mount goes with the namespace; who still waits for it is released


if __name__ == "__main__":
    sys.exit(main())
