# SPDX-License-Identifier: Apache-2.0
"""What the workload's side says itself: the double's log of CUPTI calls, and the shim's answer on its socket."""
import contextlib
import pathlib
import socket
import struct


class CallLog:
    """The double's log of CUPTI calls: SIMGPU_CALL_LOG."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def calls(self, function=None):
        """[(monotonic ns, function, result)], in order."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        rows = [line.split() for line in lines]
        return [(int(row[0]), row[2], row[3]) for row in rows if function in (None, row[2])]


def shim_hello(path):
    """What the shim behind a socket answers to a peer that comes: (message type, bytes). 1 is HELLO, 2 BUSY."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as peer:
        peer.settimeout(5)
        peer.connect(str(path))
        packet = peer.recv(65536)
        return struct.unpack_from("<I", packet, 8)[0], packet


def shim_asleep(path):
    """Nobody holds the shim, and it is not armed (HELLO's flag 3, shim/abi/pillion_abi.h)."""
    kind, packet = shim_hello(path)
    return kind == 1 and struct.unpack_from("<I", packet, 48)[0] & 8 == 0
