# SPDX-License-Identifier: Apache-2.0
"""Programs that have a CPython inside them, built from python/embed.c with what an interpreter says of its own libraries."""
import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent / "python" / "embed.c"
NAMES = ("LIBRARY", "LDLIBRARY", "LIBPL", "LIBDIR", "LIBS", "SYSLIBS", "MODLIBS")
ASK = f"import json, sysconfig; print(json.dumps({{n: sysconfig.get_config_var(n) or '' for n in {NAMES}}}))"

# How the interpreter is in the program: libpython.so; libpython.a, its symbols exported, without which no extension module
# could be loaded.
KINDS = ("shared", "static")


def build(interpreter, kind, folder):
    """(path of the program, "") or (None, why there is none)"""
    if not os.path.exists(os.path.join(interpreter.include, "Python.h")):
        return None, f"no headers in {interpreter.include}"
    said = subprocess.run([interpreter.path, "-c", ASK], capture_output=True, text=True, check=True).stdout
    config = json.loads(said)
    program = pathlib.Path(folder) / f"embed-{kind}"
    libraries = config["LIBS"].split() + config["SYSLIBS"].split()
    if kind == "shared":
        library = pathlib.Path(config["LIBDIR"]) / config["LDLIBRARY"]
        words = [library, f"-Wl,-rpath,{config['LIBDIR']}", *libraries]
    else:
        library = pathlib.Path(config["LIBPL"]) / config["LIBRARY"]
        words = ["-no-pie", "-Wl,--export-dynamic", "-Wl,--whole-archive", library, "-Wl,--no-whole-archive",
                 *config["MODLIBS"].split(), *libraries, "-lutil", "-lpthread"]
    if not library.exists():
        return None, f"no {library}"
    done = subprocess.run(["cc", "-w", "-O1", f"-I{interpreter.include}", "-o", program, SOURCE, *words],
                          capture_output=True, text=True)
    return (program, "") if done.returncode == 0 else (None, "it does not link: " + done.stderr[-1000:])
