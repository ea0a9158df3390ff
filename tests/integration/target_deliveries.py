# SPDX-License-Identifier: Apache-2.0
"""Rows of test_targets.py: processes that may make no memory file, so that the shim comes through a file."""
import pathlib

from adverse import is_root, row, system_call_numbers
from injection import FAILED, Operator, injected, refused

NEEDS_ROOT = "" if is_root() else "needs root"
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")
NOEXEC = "for folder in " + " ".join(FOLDERS) + """; do
  mount --bind $folder $folder && mount -o remount,bind,noexec $folder || exit 9
done
# The program itself may lie in one of them.
build=$(dirname "$(dirname "$1")")
mount --bind "$build" "$build" && mount -o remount,bind,exec "$build" || exit 9
exec "$@"
"""


def start_without_memory_files(test, beside, **options):
    """All its threads have the filter."""
    path = beside.bench.folder / "system-calls"
    path.write_text(str(system_call_numbers()["memfd_create"]))
    beside.start([f"refuse_eperm {path}"], shim=False, **options)
    operator = Operator(beside)
    refused(test, operator, beside.workload.pid, "a seccomp filter of its own", "-force")
    return operator


def left_behind(pid):
    return [str(path) for folder in FOLDERS for path in pathlib.Path(folder).glob(f"*.so*.{pid}")]


def no_memory_files(test, beside):
    operator = start_without_memory_files(test, beside)
    pid = beside.workload.pid
    injected(test, operator, pid, f"through the file /tmp/libpillion.so.{pid}, which is removed", forecast=False)
    test.assertEqual(left_behind(pid), [])
    beside.attach()
    beside.exact()
    beside.end()


def no_memory_files_and_no_folder(test, beside):
    operator = start_without_memory_files(test, beside, wrapper=("unshare", "-m", "sh", "-c", NOEXEC, "sh"))
    done = operator.inject(beside.workload.pid, "-force")
    test.assertEqual((done.returncode, done.stdout), (FAILED, ""), done)
    for word in ("make a memory file", "no folder of its root", "noexec"):
        test.assertIn(word, done.stderr)
    test.assertEqual(left_behind(beside.workload.pid), [])
    beside.end()


DELIVERIES = [row(no_memory_files), row(no_memory_files_and_no_folder, NEEDS_ROOT)]
