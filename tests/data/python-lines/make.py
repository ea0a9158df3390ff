#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the line tables of sample.py as the running CPython compiles it, with the line of each instruction.

  python3.11 make.py       writes python-3.11.txt beside itself; run it once with each version

One line a code object: its qualified name (co_name before 3.11), co_firstlineno, the table in hex, and for each step of
two bytes through the bytecode what the interpreter's own PyCode_Addr2Line says, as LINExCOUNT runs; -1 is no line.
"""
import ctypes
import itertools
import pathlib
import sys
import types

HERE = pathlib.Path(__file__).parent


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def line_of(code, offset):
    return ctypes.pythonapi.PyCode_Addr2Line(ctypes.py_object(code), offset)


def row(code):
    table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
    lines = [line_of(code, offset) for offset in range(0, len(code.co_code), 2)]
    runs = [f"{line}x{len(list(group))}" for line, group in itertools.groupby(lines)]
    name = getattr(code, "co_qualname", code.co_name)
    return " ".join([name, str(code.co_firstlineno), table.hex() or "-", *runs])


def main():
    version = "{}.{}".format(*sys.version_info)
    module = compile((HERE / "sample.py").read_text(), "sample.py", "exec", dont_inherit=True)
    rows = [row(code) for code in codes_of(module)]
    text = f"# CPython {version}, of sample.py by make.py\n" + "\n".join(rows) + "\n"
    (HERE / f"python-{version}.txt").write_text(text)


main()
