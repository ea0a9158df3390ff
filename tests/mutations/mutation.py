# SPDX-License-Identifier: Apache-2.0
"""What a mutation is, and the two kinds of test that can kill one."""
import dataclasses
import sys


@dataclasses.dataclass(frozen=True)
class UnitTest:
    """One case of a Catch2 program."""
    program: str
    case: str

    @property
    def name(self):
        return f"{self.program} \"{self.case}\""

    @property
    def targets(self):
        return {self.program}

    def command(self, _tree, build):
        [program] = [path for path in build.glob("tests/unit/**/" + self.program) if path.is_file()]
        # Catch2 takes these characters of a name for its own syntax.
        case = "".join("\\" + letter if letter in "\\,[]\"*" else letter for letter in self.case)
        return [program, case], build, {}


@dataclasses.dataclass(frozen=True)
class IntegrationTest:
    """One case of a file in tests/integration: program, shim and workloads on the double."""
    file: str
    case: str

    @property
    def name(self):
        return f"{self.file} {self.case}"

    @property
    def targets(self):
        return {"pillion", "pillion_shim", "simgpu_cuda", "simgpu_cupti", "workloads", "step_tracer"}

    def command(self, tree, build):
        return [sys.executable, self.file, self.case], tree / "tests" / "integration", {
            "PILLION_BUILD": str(build), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclasses.dataclass(frozen=True)
class InterpreterTest:
    """The shim's Python frames in /usr/bin/python3, case by case against what the interpreter says of itself."""
    name = "test_python_frames.py in Debian's CPython"
    targets = frozenset({"python_walker"})

    def command(self, tree, build):
        version = "{}.{}".format(*sys.version_info)
        return [sys.executable, "test_python_frames.py", "PythonFramesTest.test_frames_are_those_of_the_interpreter"], \
            tree / "tests" / "integration", {"PILLION_BUILD": str(build), "PYTHONDONTWRITEBYTECODE": "1",
                                             "PILLION_PYTHONS": version}


@dataclasses.dataclass(frozen=True)
class Mutation:
    """`before` stands in `file` exactly once; with `after` in its place `test` has to fail, and where `says` (a regular
    expression) is given it has to say that: who crashes has not noticed."""
    name: str
    what: str  # is undone
    file: str
    before: str
    after: str
    test: object
    says: str = ""
