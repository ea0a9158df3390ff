# SPDX-License-Identifier: Apache-2.0
"""Python frames in every CPython that this machine has: python/frames.py compares them with the interpreter's own."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import pythons

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUTS = os.path.join(HERE, "../data/python-offsets")
sys.path.insert(0, LAYOUTS)

import make as layouts  # noqa: E402

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


def without_version(offsets):
    """A layout but for the words in which releases of one minor version differ: what they publish has their number."""
    return {name: value for name, value in offsets.items() if name not in ("version", "published")}


def layout(version):
    with open(os.path.join(LAYOUTS, f"python-{version}.txt"), encoding="utf-8") as file:
        return without_version(dict(line.split() for line in file))


class PythonFramesTest(unittest.TestCase):
    def setUp(self):
        if not FOUND:
            self.skipTest(f"no CPython {', '.join(MISSING)} on this machine")

    def test_frames_are_those_of_the_interpreter(self):
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
            packages = "python3.14-minimal,libpython3.14-stdlib,libpython3.14-dev,python3-greenlet"
            made = subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=essential", "--mode=root",
                 '--aptopt=Acquire::Check-Valid-Until "false"', f"--include={packages}", "sid", root,
                 f"deb {mirror} sid main"], text=True, capture_output=True)
            if made.returncode != 0:
                self.skipTest("mmdebstrap: " + made.stderr.strip()[-300:])
            shutil.copytree(os.path.join(HERE, "python"), os.path.join(root, "tmp/python"))
            shutil.copy(LIBRARY, os.path.join(root, "tmp"))
            done = subprocess.run(["chroot", root, "python3.14", "-W", "error", "/tmp/python/frames.py",
                                   "/tmp/" + os.path.basename(LIBRARY)], text=True, capture_output=True, timeout=180)
            check_answer(self, done, "3.14")
            self.assertEqual(json.loads(done.stdout)["cases"]["greenlets"], "")
            include = os.path.join(root, "usr/include/python3.14")
            self.assertEqual(without_version(layouts.offsets(include)), layout("3.14"))
            self.assertEqual(without_version(layouts.offsets(include, "-DPy_GIL_DISABLED=1")), layout("3.14t"))


@unittest.skipUnless(FOUND, "no CPython of these versions")
class OffsetsTest(unittest.TestCase):
    def test_layouts_are_those_of_the_headers(self):
        """tests/data/python-offsets, which unit_shim_python compares the shim's tables with and builds chains from."""
        compared = 0
        for interpreter in FOUND:
            if not os.path.exists(os.path.join(interpreter.include, "internal/pycore_runtime.h")):
                print(f"SKIPPED: offsets of {interpreter.full}: no headers in {interpreter.include}", file=sys.stderr)
                continue
            with self.subTest(version=interpreter.full):
                self.assertEqual(without_version(layouts.offsets(interpreter.include)), layout(interpreter.version))
                compared += 1
        self.assertGreater(compared, 0, "no interpreter with headers: scripts/setup installs python3-dev")


if __name__ == "__main__":
    for missing in MISSING:
        print(f"SKIPPED: CPython {missing}: none on this machine", file=sys.stderr)
    print("CPython", ", ".join(f"{i.full} ({i.path})" for i in FOUND), file=sys.stderr)
    result = unittest.main(exit=False, verbosity=2).result
    # 77: skipped, where no interpreter of the versions that were asked for is there.
    sys.exit(1 if not result.wasSuccessful() else 0 if FOUND else 77)
