# SPDX-License-Identifier: Apache-2.0
"""Rows of test_targets.py: processes that have run out of what an injection needs."""
from adverse import is_root, row
from injection import FAILED, Operator, injected

NEEDS_ROOT = "" if is_root() else "needs root"


def out_of(test, beside, fill, free, *words, first=(), flags=()):
    """It says what the process has run out of, how to give it more, and works once there is some."""
    beside.start(shim=False)
    beside.act(first)
    operator = Operator(beside)
    beside.workload.do(fill)
    for command in (("inject",), ("record", "-inject", "-wait-for-shim", "30m", "-o", "-")):
        done = operator.run(*command, "-pid", beside.workload.pid)
        test.assertEqual((done.returncode, done.stdout), (FAILED, ""), done)
        for word in (*words, f"prlimit --pid {beside.workload.pid} --"):
            test.assertIn(word, done.stderr)
    beside.workload.launch(5)
    beside.workload.do(free)
    injected(test, operator, beside.workload.pid)
    beside.attach(*flags)
    beside.exact()
    beside.end()


def descriptors_exhausted(test, beside):
    out_of(test, beside, "exhaust_fds", "free_fds", "no file descriptor left", "RLIMIT_NOFILE is 512")


def address_space_full(test, beside):
    out_of(test, beside, "limit_address_space +4", "limit_address_space none", "no more", "RLIMIT_AS is ")


def no_more_threads(test, beside):
    beside.bench.folder.chmod(0o755)
    beside.bench.sockets.chmod(0o777)
    out_of(test, beside, "limit_processes 1", "limit_processes none", "no more threads", "RLIMIT_NPROC is 1",
           first=["drop_user 1000"], flags=("-allow-uid", "1000"))


SHORTAGES = [row(descriptors_exhausted), row(address_space_full), row(no_more_threads, NEEDS_ROOT)]
