#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rejects includes and links across layers. The rules are the table below; everything else follows from it.

    scripts/check_layers.py [-root DIR]     exit status 0: every include and link is allowed
    scripts/check_layers.py -self-test      does the check itself reject what it should?

A stage of the sidecar (a folder below sidecar/) includes its own files, base/ and records.h, and the wire where it
touches it. Only the files directly in sidecar/ put stages together. The shim and the BPF programs know the wire and
nothing of the sidecar. Tests may include anything.
"""

import argparse
import pathlib
import re
import sys
import tempfile

SIDECAR_STAGES = (
    "base", "discovery", "session", "collect", "join", "timeline", "unwind", "symbolize", "profile", "export", "http",
    "inject",
)  # fmt: skip

# What each stage may include besides its own folder.
EVERY_STAGE = {"base", "records.h"}
# The wire: who talks to the shim or reads its rings; unwind reads a snapshot's registers in the wire's order, profile
# names the shim's counters.
WIRE = {"base", "discovery", "session", "collect", "unwind", "profile", "inject"}
# Exporters see the profile model and nothing else.
ALSO = {"export": {"profile"}}
# Folders of sidecar/ that put stages together, as the files directly in it do.
ASSEMBLY = {"commands", "pipeline"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
SOURCES = {".h", ".cpp", ".c", ".cc", ".hpp", ".inc"}


def _lines(path):
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _stage_of_include(name):
    """The layer that an include names: a stage, "records.h", "abi", or "" for a file without a folder."""
    first = name.split("/")[0]
    return first if "/" in name or first == "records.h" else ""


def _may(stage):
    allowed = {stage} | (EVERY_STAGE if stage != "base" else {"records.h"}) | ALSO.get(stage, set())
    return allowed | ({"abi"} if stage in WIRE else set())


def _check_stage(path, stage, root):
    for number, line in enumerate(_lines(path), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found[1]
        layer = _stage_of_include(name)
        where = f"{path.relative_to(root)}:{number}"
        if name.startswith("."):
            yield f'{where}: "{name}": name an include from sidecar/, without dots'
        elif layer == "":
            # A bare name is a file of the own folder, or it belongs to the files that put stages together.
            if not (path.parent / name).exists():
                yield f'{where}: stage {stage} includes "{name}", which is not of its folder'
        elif layer not in _may(stage):
            yield f'{where}: stage {stage} includes "{name}"; it may see {", ".join(sorted(_may(stage)))}'


def _check_outside_sidecar(path, folder, root):
    """The shim and bpf/: their own files and the wire."""
    for number, line in enumerate(_lines(path), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found[1]
        own = (path.parent / name).exists() or (root / folder / name).exists()
        # The wire includes it for BPF, where the kernel's types come from it.
        generated = name == "vmlinux.h" and (folder == "bpf" or path == root / "shim/abi/pillion_abi.h")
        if ".." in name.split("/") or not (own or generated or name == "abi/pillion_abi.h"):
            yield f'{path.relative_to(root)}:{number}: {folder}/ includes "{name}"; it may see its own files and the wire'


def _check_links(path, stage, root):
    """A stage's CMakeLists.txt: pillion_stage(... LIBRARIES pillion_x): x must be a layer that it may include."""
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    for found in re.finditer(r"\bpillion_(\w+)\b", text):
        other = found[1]
        if other in SIDECAR_STAGES and other not in _may(stage):
            yield f"{path.relative_to(root)}: stage {stage} links pillion_{other}"


def _sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in SOURCES and path.is_file())


def violations(root):
    """One line for each include or link that crosses layers."""
    found = []
    sidecar = root / "sidecar"
    for stage in sorted(entry.name for entry in sidecar.iterdir() if entry.is_dir()) if sidecar.is_dir() else []:
        if stage in ASSEMBLY:
            continue
        if stage not in SIDECAR_STAGES:
            found.append(f"sidecar/{stage}: a stage that scripts/check_layers.py does not know")
            continue
        for path in _sources(sidecar / stage):
            found += _check_stage(path, stage, root)
        if (sidecar / stage / "CMakeLists.txt").exists():
            found += _check_links(sidecar / stage / "CMakeLists.txt", stage, root)
    for path in sorted(sidecar.glob("records.h")):
        found += [
            f"{path.relative_to(root)}:{number}: records.h includes a file of Pillion's"
            for number, line in enumerate(_lines(path), 1)
            if INCLUDE.match(line)
        ]
    for folder in ("shim", "bpf"):
        if (root / folder).is_dir():
            for path in _sources(root / folder):
                found += _check_outside_sidecar(path, folder, root)
    return found


# ---- Self-test: a small tree, then one line at a time that must be rejected, or accepted ----

GOOD_TREE = {
    "sidecar/records.h": "#include <vector>\n",
    "sidecar/pipeline.cpp": '#include "join/joiner.h"\n#include "unwind/walker.h"\n',
    "sidecar/base/log.h": "",
    "sidecar/join/joiner.h": '#include "base/log.h"\n#include "records.h"\n',
    "sidecar/join/CMakeLists.txt": "pillion_stage(join SOURCES joiner.cpp LIBRARIES pillion_base) # not pillion_unwind\n",
    "sidecar/unwind/walker.h": '#include "abi/pillion_abi.h"\n',
    "sidecar/export/pprof.cpp": '#include "profile/model.h"\n',
    "shim/abi/pillion_abi.h": '#include "vmlinux.h"\n',
    "sidecar/commands/serve.cpp": '#include "http/server.h"\n#include "pipeline.h"\n',
    "shim/entry.cpp": '#include "ring.h"\n#include "abi/pillion_abi.h"\n',
    "shim/ring.h": "",
    "bpf/cpu.bpf.c": '#include "vmlinux.h"\n#include "abi/pillion_abi.h"\n',
}
BAD_FILES = (
    ("sidecar/join/bad.cpp", '#include "unwind/walker.h"\n'),
    ("sidecar/join/bad.cpp", '  #  include "collect/drain.h"\n'),
    ("sidecar/join/bad.cpp", '#include "abi/pillion_abi.h"\n'),
    ("sidecar/join/bad.cpp", '#include "../unwind/walker.h"\n'),
    ("sidecar/join/bad.cpp", '#include "pipeline.h"\n'),
    ("sidecar/base/bad.h", '#include "join/joiner.h"\n'),
    ("sidecar/export/bad.cpp", '#include "join/joiner.h"\n'),
    ("sidecar/records.h", '#include "join/joiner.h"\n'),
    ("sidecar/utilities/bad.h", ""),
    ("sidecar/join/CMakeLists.txt", "pillion_stage(join SOURCES joiner.cpp LIBRARIES pillion_unwind)\n"),
    ("shim/bad.cpp", '#include "base/log.h"\n'),
    ("shim/bad.cpp", '#include "vmlinux.h"\n'),
    ("shim/bad.cpp", '#include "../sidecar/records.h"\n'),
    ("bpf/bad.bpf.c", '#include "records.h"\n'),
)


def _tree_violations(files):
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return violations(root)


def self_test():
    wrong = [f"rejects a good tree: {line}" for line in _tree_violations(GOOD_TREE)]
    for name, text in BAD_FILES:
        found = _tree_violations({**GOOD_TREE, name: text})
        if len(found) != 1:
            wrong.append(f"{name} with {text!r}: 1 violation expected, found {found}")
    for line in wrong:
        print(f"check_layers: self-test: {line}")
    print(f"check_layers: self-test: {len(BAD_FILES)} violations planted, {len(wrong)} surprises")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description="Rejects includes and links across layers.")
    parser.add_argument("-root", "--root", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("-self-test", "--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    found = violations(arguments.root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
