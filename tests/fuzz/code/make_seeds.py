#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz_code: one stack over each of some real libraries.

    make_seeds.py FOLDER LIBRARY...
"""

import pathlib
import struct
import sys

BASE = 0x7F0000000000
STACK = 0x7FFC00001000


def seed(library):
    """Registers at an address of the library's code, and a stack full of such addresses and of pointers into itself."""
    addresses = [BASE + 0x1000 + 16 * number for number in range(64)]
    words = [value for pair in zip(addresses, range(STACK + 64, STACK + 64 + 64 * 16, 16)) for value in pair]
    stack = struct.pack(f"<{len(words)}Q", *words)
    registers = struct.pack("<8Q", 0x1010, STACK, STACK + 128, 1, 2, 3, 4, 5)
    return registers + struct.pack("<H", len(stack)) + stack + library.read_bytes()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        library = pathlib.Path(name)
        (folder / library.stem).write_bytes(seed(library))


if __name__ == "__main__":
    main()
