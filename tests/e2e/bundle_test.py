#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does the bundle run on a machine that has nothing but glibc? Looked at file by file, then started in the root of a
minimal Debian.

    bundle_test.py run|glibc      which half; glibc: is glibc 2.36 enough?
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
BUNDLE = os.path.join(BUILD, "bundle")
GLIBC = re.compile(r"(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util))\.so\.\d+")
NEWEST_GLIBC = (2, 36)


def elf_files():
    found = [os.path.join(BUNDLE, "pillion"), os.path.join(BUNDLE, "libpillion.so")]
    return found + glob.glob(os.path.join(BUNDLE, "lib", "*.so*"))


def dynamic(path, tag):
    text = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


class GlibcTest(unittest.TestCase):
    def test_no_symbol_is_newer(self):
        for path in elf_files() + glob.glob(os.path.join(BUNDLE, "cupti", "*", "*")):
            text = subprocess.run(["readelf", "-VW", path], check=True, capture_output=True, text=True).stdout
            versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", text)]
            with self.subTest(file=os.path.basename(path)):
                self.assertTrue(versions or not dynamic(path, "NEEDED"))
                self.assertLessEqual(max(versions, default=(2, 0)), NEWEST_GLIBC)


class RunTest(unittest.TestCase):
    def test_every_library_is_in_the_bundle_or_glibc(self):
        present = set(os.listdir(os.path.join(BUNDLE, "lib")))
        self.assertFalse([name for name in present if GLIBC.fullmatch(name)])
        for path in elf_files():
            with self.subTest(file=os.path.basename(path)):
                needed = [name for name in dynamic(path, "NEEDED") if not GLIBC.fullmatch(name)]
                self.assertEqual([name for name in needed if name not in present], [])
                wanted = ["$ORIGIN/lib"] if path.endswith("/pillion") else ["$ORIGIN"]
                if path.endswith("/libpillion.so"):
                    wanted = []
                self.assertEqual(dynamic(path, "RUNPATH"), wanted)
                self.assertEqual(dynamic(path, "RPATH"), [])

    def test_every_library_has_its_licence(self):
        self.assertTrue(os.path.exists(os.path.join(BUNDLE, "licenses", "pillion")))
        self.assertGreater(len(os.listdir(os.path.join(BUNDLE, "licenses"))), 3)
        # What of npm is in the page is in the program.
        with open(os.path.join(BUNDLE, "pillion"), "rb") as program:
            page = b"/web/page.js" in program.read()
        for name in ("npm-d3-flame-graph", "npm-pprof-format"):
            self.assertEqual(os.path.exists(os.path.join(BUNDLE, "licenses", name)), page, name)

    def in_root(self, root, program):
        """Starts it with /proc, in namespaces that end with it."""
        script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, root]
        return subprocess.run([*command, program, "-help"], capture_output=True, text=True, timeout=60)

    def test_starts_in_a_bare_debian(self):
        tar = os.path.join(os.path.dirname(BUILD), "rootfs", "bookworm.tar")
        suite = re.search(r"VERSION_CODENAME=(\w+)", open("/etc/os-release", encoding="utf-8").read())[1]
        # What a newer Debian built needs that Debian's glibc.
        if suite != "bookworm":
            tar = tar.replace("bookworm", suite)
        subprocess.run([os.path.join(SOURCE, "scripts", "rootfs"), suite, tar], check=True, timeout=600)
        with tempfile.TemporaryDirectory(prefix="pillion-root-") as root:
            subprocess.run(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*"], check=True)
            shutil.copytree(BUNDLE, os.path.join(root, "moved", "bundle"))
            done = self.in_root(root, "/moved/bundle/pillion")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("pillion", done.stdout)
            # The root is bare: without lib/ the same program cannot start.
            shutil.rmtree(os.path.join(root, "moved", "bundle", "lib"))
            done = self.in_root(root, "/moved/bundle/pillion")
            self.assertEqual(done.returncode, 127)
            self.assertIn("error while loading shared libraries", done.stderr)


if __name__ == "__main__":
    half = {"run": RunTest, "glibc": GlibcTest}[sys.argv.pop(1)]
    if half is RunTest and (os.geteuid() != 0 or shutil.which("mmdebstrap") is None):
        print("SKIPPED: needs root and mmdebstrap (scripts/setup test)")
        sys.exit(77)
    if half is GlibcTest and "VERSION_CODENAME=bookworm" not in open("/etc/os-release", encoding="utf-8").read():
        print("SKIPPED: built on a newer Debian than 12: needs its glibc")
        sys.exit(77)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(half)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
