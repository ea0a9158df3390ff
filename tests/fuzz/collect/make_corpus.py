#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus: a few good conversations and good ring contents, from which the fuzzers start."""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
HELLO, BUSY, ARMED, REFUSED, FLUSHED, DISARMED, MAPS, FILE, UNKNOWN = range(9)  # places in kTypes
PYTHON = 10
NOTHING, ARM, DISARM, FLUSH, GET_FILE, GET_MAPS, QUERY, KEEP = range(8)


def packet(kind, act=NOTHING, body=b""):
    return struct.pack("<HB", len(body), kind << 3 | act) + body


def raw(body, act=NOTHING):
    return struct.pack("<HB", len(body), 0x80 | act) + body


def maps(generation, index, last, text):
    return packet(MAPS, NOTHING, struct.pack("<IIII", generation, index, last, len(text)) + text)


def launch(correlation):
    return struct.pack("<HHIIIQQQIHH", 1, 0, 48, correlation, 7, 100, 5, 6, 307, 1, 1)


def kernel(correlation):
    return struct.pack("<HHI4I2Q2IQ6I4I", 16, 0, 96, correlation, 0, 1, 7, 10, 20, 1, 0, 0, *([1] * 6), 0, 0, 32, 0)


def context(number, device):
    return struct.pack("<HHIII", 36, 0, 16, number, device)


def returned(correlation, flags):
    return struct.pack("<HHIIIQ", 3, 0, 24, correlation, flags, 90)


def sync(correlation):
    return struct.pack("<HHIIIQQIIII", 4, 0, 48, correlation, 7, 50, 5, 126, 1, 3, 0)


def name(text):
    size = (16 + len(text) + 7) // 8 * 8
    return (struct.pack("<HHIII", 32, 0, size, 1, len(text)) + text).ljust(size, b"\0")


def snapshot(stack):
    size = (120 + len(stack) + 7) // 8 * 8
    head = struct.pack("<HHIIIQQII8QQII", 64, 0, size, 1, 7, 100, 5, 1, 0, *range(8), 0x7FFC0000, len(stack), 0)
    return (head + stack).ljust(size, b"\0")


def python_code(number, qualname, filename, table):
    size = (32 + len(qualname) + len(filename) + len(table) + 7) // 8 * 8
    head = struct.pack("<HHIIHHIIII", 35, 0, size, number, 0x030B, 0, 12, len(qualname), len(filename), len(table))
    return (head + qualname + filename + table).ljust(size, b"\0")


def python_snapshot(stack, frames):
    padded = stack.ljust((len(stack) + 7) // 8 * 8, b"\0")
    tail = padded + b"".join(struct.pack("<IiQ", *frame) for frame in frames)
    return struct.pack("<HHIIIQQII8QQII", 64, 0, 120 + len(tail), 1, 7, 100, 5, 1, 8, *range(8), 0x7FFC0000, len(stack),
                       len(frames)) + tail


def ring_round(events, stacks, slot=bytes(48)):
    heads = struct.pack("<HHHH", len(events), len(stacks), 0, 0)
    return (heads + slot + bytes(64) + struct.pack("<H", 2 * len(events)) + events + bytes(len(events))
            + struct.pack("<H", len(stacks)) + stacks)


def write(folder, seeds):
    place = HERE / "corpus" / folder
    place.mkdir(parents=True, exist_ok=True)
    for title, data in seeds.items():
        (place / title).write_bytes(data)


write("packets", {
    "arm_disarm": packet(HELLO) + packet(ARMED, ARM) + packet(FLUSHED, FLUSH, struct.pack("<QQ", 1, 2))
    + packet(DISARMED, DISARM),
    "refused": packet(HELLO) + packet(REFUSED, ARM),
    "busy": packet(BUSY),
    "maps": packet(HELLO) + maps(1, 0, 0, b"a\n") + maps(1, 1, 1, b"b\n") + maps(2, 1, 1, b"c\n"),
    "file": packet(HELLO) + packet(FILE, GET_FILE, struct.pack("<QII", 1, 0, 0)),
    "other_major": raw(struct.pack("<IHHII", 0x4E4C4950, 2, 0, 1, 16)),
    "python": packet(HELLO) + packet(ARMED, ARM) + packet(PYTHON, NOTHING, struct.pack("<QII", 1, 0x030B02F0, 1)),
    "unknown": packet(HELLO, QUERY) + packet(UNKNOWN) + packet(HELLO, KEEP),
})
write("rings", {
    "launches": ring_round(launch(1) + launch(2), b""),
    "mixed": ring_round(name(b"_Z6kernelv") + launch(1) + kernel(1), snapshot(b"stack" * 10)),
    "python": ring_round(python_code(1, b"Model.forward", b"model.py", b"\x80\0\xd8\x04\x08") + launch(1),
                         python_snapshot(b"stack" * 5, [(1, 4, 0), (1, 8, 0x7FFC0008)])),
    "calls": ring_round(launch(1) + returned(1, 0) + kernel(1) + sync(2) + returned(2, 1), snapshot(b"stack" * 4)),
    "two_rounds": ring_round(launch(1), snapshot(b"x" * 64)) + ring_round(launch(2), b""),
    "module": ring_round(launch(1), b"", struct.pack("<IIIIQQQQ", 1, 2, 5, 1, 0, 4096, 0, 9)),
    "contexts": ring_round(context(1, 0) + context(2, 1) + launch(1) + kernel(1), b""),
    "far_head": struct.pack("<HQ", 0xFFFF, 1 << 63) + bytes(200),
})
