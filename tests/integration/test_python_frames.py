# SPDX-License-Identifier: Apache-2.0
"""Python frames in every CPython that this machine has: python/frames.py compares them with the interpreter's own."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import pythons

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PILLION_BUILD", os.path.join(HERE, "../../build/release"))
LIBRARY = os.path.join(BUILD, "tests/unit/shim/python/libpython_walker.so")
IN_FORCE = 1

if not os.path.exists(LIBRARY):
    sys.exit(f"{LIBRARY} has not been built")
FOUND, MISSING = pythons.find()


def run(interpreter, *arguments, **settings):
    return subprocess.run([interpreter.path, "-W", "error", *arguments], text=True, capture_output=True, timeout=180, **settings)


def check_answer(test, done, version):
    """What frames.py has said: nothing wrong in any case, and how much it compared."""
    test.assertEqual(done.returncode, 0, done.stderr[-4000:])
    said = json.loads(done.stdout)
    test.assertEqual(said["state"], IN_FORCE)
    test.assertEqual({n: text for n, text in said["cases"].items() if text and not text.startswith("SKIPPED")}, {})
    test.assertGreater(said["probes"], 600)
    # The last walk was made while the interpreter ended; 3.9 takes a module's objects down before that.
    test.assertIn(done.stderr, ["finalizing: no frames\n"] if version != "3.9" else ["", "finalizing: no frames\n"])
    for name, text in said["cases"].items():
        if text:
            print(f"{said['version']}: {name}: {text}", file=sys.stderr)


class PythonFramesTest(unittest.TestCase):
    def test_frames_are_those_of_the_interpreter(self):
        self.assertTrue(FOUND, "no CPython at all")
        for interpreter in FOUND:
            with self.subTest(version=interpreter.full, path=interpreter.path):
                done = run(interpreter, os.path.join(HERE, "python/frames.py"), LIBRARY)
                check_answer(self, done, interpreter.version)

    def test_daemon_threads_at_the_end(self):
        """Threads that walk while the interpreter goes down: it ends as it does without them."""
        for interpreter in FOUND:
            with self.subTest(version=interpreter.full):
                for _ in range(5):
                    done = run(interpreter, os.path.join(HERE, "python/daemons.py"), LIBRARY)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(os.environ.get("PILLION_LONG"), "only in scripts/test --long: makes the root of another Debian")
class NewestTest(unittest.TestCase):
    def test_a_version_that_this_release_lacks(self):
        """The newest CPython of Debian's development branch, in a root of its own."""
        if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
            self.skipTest("needs root and mmdebstrap")
        listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                                text=True, capture_output=True).stdout.split()
        mirror = next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), None)
        if not mirror:
            self.skipTest("apt knows no mirror")
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            made = subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=essential", "--mode=root",
                 '--aptopt=Acquire::Check-Valid-Until "false"', "--include=python3.14-minimal,libpython3.14-stdlib",
                 "sid", root, f"deb {mirror} sid main"], text=True, capture_output=True)
            if made.returncode != 0:
                self.skipTest("mmdebstrap: " + made.stderr.strip()[-300:])
            shutil.copytree(os.path.join(HERE, "python"), os.path.join(root, "tmp/python"))
            shutil.copy(LIBRARY, os.path.join(root, "tmp"))
            done = subprocess.run(["chroot", root, "python3.14", "-W", "error", "/tmp/python/frames.py",
                                   "/tmp/" + os.path.basename(LIBRARY)], text=True, capture_output=True, timeout=180)
            check_answer(self, done, "3.14")


class OffsetsTest(unittest.TestCase):
    def test_tables_are_those_of_the_headers(self):
        """A program made from each version's own headers prints what the shim's table must have."""
        library = ctypes.CDLL(LIBRARY)
        library.walker_offset_name.restype = ctypes.c_char_p
        compared = 0
        for interpreter in FOUND:
            if not os.path.exists(os.path.join(interpreter.include, "internal/pycore_runtime.h")):
                print(f"SKIPPED: offsets of {interpreter.full}: no headers in {interpreter.include}", file=sys.stderr)
                continue
            with self.subTest(version=interpreter.full), tempfile.TemporaryDirectory() as folder:
                program = os.path.join(folder, "offsets")
                made = subprocess.run(
                    [shutil.which("cc") or "gcc", "-w", "-I", interpreter.include, "-I",
                     os.path.join(interpreter.include, "internal"), "-o", program, os.path.join(HERE, "python/offsets.c")],
                    text=True, capture_output=True)
                self.assertEqual(made.returncode, 0, made.stderr[-3000:])
                header = dict(line.split() for line in subprocess.run([program], text=True, capture_output=True).stdout.splitlines())
                version = int(header.pop("version"))
                table, index = {}, 0
                while library.walker_offset_name(index):
                    table[library.walker_offset_name(index).decode()] = library.walker_offset(version, index)
                    index += 1
                self.assertEqual({n: str(v) for n, v in table.items() if v != 0xFFFF}, header)
                compared += 1
        self.assertGreater(compared, 0, "no interpreter with headers")


if __name__ == "__main__":
    for missing in MISSING:
        print(f"SKIPPED: CPython {missing}: none on this machine", file=sys.stderr)
    print("CPython", ", ".join(f"{i.full} ({i.path})" for i in FOUND), file=sys.stderr)
    unittest.main(verbosity=2)
