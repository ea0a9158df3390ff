#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes where a CPython keeps its fields, from that version's own headers.

  make.py INCLUDE [-DPy_GIL_DISABLED=1]     writes python-3.14.txt (with the definition python-3.14t.txt) beside itself

INCLUDE is the folder with Python.h and internal/. The second word is for the compiler: a free-threaded build has the
same headers. One `name value` a line, as tests/integration/python/offsets.c prints them.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "integration" / "python" / "offsets.c"


def offsets(include, *flags):
    """What the headers of this folder say."""
    include = pathlib.Path(include)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "offsets"
        # Debian's pyconfig.h asks for one beside the versions' folders, where another release's libc may be, too.
        folders = [f"-I{include}", f"-I{include / 'internal'}", f"-idirafter{include.parent}"]
        subprocess.run(["cc", "-w", *flags, "-Wl,--unresolved-symbols=ignore-all", *folders, "-o", program, SOURCE],
                       check=True, capture_output=True, text=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in said.splitlines())


def main():
    found = offsets(*sys.argv[1:])
    version = int(found["version"])
    variant = "t" if any("Py_GIL_DISABLED" in flag for flag in sys.argv[2:]) else ""
    text = "".join(f"{name} {value}\n" for name, value in found.items())
    (HERE / f"python-{version >> 8}.{version & 255}{variant}.txt").write_text(text)


if __name__ == "__main__":
    main()
