#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the image with the shipped Dockerfile, and looks at what came out. The pod tests run it.

    image_test.py quick     with the bundle of this build
    image_test.py full      everything compiled inside, from the sources (minutes)
"""

import os
import re
import sys
import tempfile
import unittest

import images
from podman import Podman, why_not

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
LIMIT_BYTES = 64 << 20
FULL = "full" in sys.argv[1:]


def on_bookworm():
    with open("/etc/os-release", encoding="utf-8") as file:
        return "VERSION_CODENAME=bookworm" in file.read()


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.ensure_base(cls.podman, SOURCE, BUILD)
        images.ensure_cuda(cls.podman, BUILD)
        arguments = {"CUPTI_VERSIONS": images.CUPTI_VERSION}
        # A bundle that a newer Debian built does not run on the image's glibc: there everything is compiled inside.
        if not FULL and on_bookworm():
            arguments["BUNDLE"] = os.path.relpath(os.path.join(BUILD, "bundle"), SOURCE)
        images.build_pillion(cls.podman, SOURCE, arguments)
        print(f"image: {images.image_bytes(cls.podman, images.PILLION) / 1e6:.1f} MB", flush=True)

    def files(self):
        """Paths in the image."""
        root = self.podman.output("image", "mount", images.PILLION)
        try:
            return {
                os.path.join("/", os.path.relpath(os.path.join(folder, name), root))
                for folder, _, names in os.walk(root)
                for name in names
            }
        finally:
            self.podman.run("image", "umount", images.PILLION)

    def test_is_small(self):
        self.assertLess(images.image_bytes(self.podman, images.PILLION), LIMIT_BYTES)

    def test_is_run_by_an_ordinary_user(self):
        self.assertEqual(self.podman.output("image", "inspect", "--format", "{{.User}}", images.PILLION), "65532:65532")

    def test_holds_the_program_the_shim_and_cupti_and_no_shell(self):
        files = self.files()
        home = "/usr/lib/pillion/"
        for name in ("pillion", "libpillion.so", f"cupti/{images.CUPTI_VERSION}/libcupti.so.13", "licenses/pillion"):
            self.assertIn(home + name, files)
        others = [name for name in files if not name.startswith(home) and not re.search(r"/l(ib|d-)[^/]*\.so\.\d+$", name)]
        self.assertEqual(sorted(others), ["/etc/group", "/etc/passwd"])

    def test_starts_with_no_right_at_all(self):
        done = self.podman.run(
            "run", "--rm", "--pull=never", "--network", "none", "--read-only", "--read-only-tmpfs=false",
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", images.PILLION, "-help",
        )  # fmt: skip
        self.assertIn("pillion", done.stdout)

    def test_install_copies_the_shim_and_cupti(self):
        with tempfile.TemporaryDirectory() as target:
            os.chmod(target, 0o777)  # an emptyDir; the user is anybody
            self.podman.run(
                "run", "--rm", "--pull=never", "--network", "none", "--read-only", "--read-only-tmpfs=false",
                "--cap-drop", "ALL", "--user", "12345", "--volume", f"{target}:/opt/pillion", images.PILLION,
                "install", "/opt/pillion",
            )  # fmt: skip
            self.assertTrue(os.path.isfile(os.path.join(target, "libpillion.so")))
            self.assertTrue(os.path.isfile(os.path.join(target, "cupti", images.CUPTI_VERSION, "libcupti.so.13")))


class WithoutCudaTest(unittest.TestCase):
    def test_builds_without_any_cuda_image(self):
        podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.ensure_base(podman, SOURCE, BUILD)
        if not on_bookworm():
            self.skipTest("would compile everything once more")
        bundle = os.path.relpath(os.path.join(BUILD, "bundle"), SOURCE)
        arguments = {"CUDA_IMAGE": images.BASE, "CUPTI_VERSIONS": "", "BUNDLE": bundle}
        images.build_pillion(podman, SOURCE, arguments, tag="localhost/pillion:without-cuda")
        podman.run("image", "rm", "localhost/pillion:without-cuda")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: images cannot be built here: {reason}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
