# SPDX-License-Identifier: Apache-2.0
"""A part of a section in a process of its own: it ends at its bound, and its rows are in the table whatever happens."""
import json
import os
import select
import signal
import sys
import time
import traceback

GRACE_S = 20  # for the part to stop what it started


class OutOfTime(Exception):
    pass


class PipeTable:
    """Stands for the table in the part's process; a line per row."""

    def __init__(self, descriptor):
        self.out = os.fdopen(descriptor, "w", buffering=1)

    def add(self, *row, **named):
        self.out.write(json.dumps(["add", row, named], default=str) + "\n")

    def add_speed(self, *row, **named):
        self.out.write(json.dumps(["add_speed", row, named], default=str) + "\n")


def out_of_time(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough; what follows is stopping
    raise OutOfTime("the part's bound in time")


def part_process(name, function, table):
    os.setsid()
    signal.signal(signal.SIGTERM, out_of_time)
    try:
        function(table)
    except BaseException as error:  # the row is the report
        traceback.print_exc()
        table.add(name, "the part broke off", f"{type(error).__name__}: {error}"[:600], "ends", False)
    sys.stdout.flush()
    sys.stderr.flush()


def run_bounded(table, name, function, seconds):
    """Runs function(table); past `seconds` it is asked to end, GRACE_S later killed with all that it started."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            part_process(name, function, PipeTable(writer))
        finally:
            os._exit(0)
    os.close(writer)
    begin = time.monotonic()
    try:
        if not forward_rows(table, reader, begin + seconds):
            os.kill(child, signal.SIGTERM)
            if not forward_rows(table, reader, begin + seconds + GRACE_S):
                table.add(name, "the part did not even stop", f"killed after {seconds + GRACE_S:.0f} s", "ends", False)
    finally:
        os.close(reader)
        try:
            os.killpg(child, signal.SIGKILL)  # what it left behind; the group is its own
        except ProcessLookupError:
            pass
        os.waitpid(child, 0)
    return time.monotonic() - begin


def forward_rows(table, reader, deadline):
    """Rows into the table until the part has closed its end; False at the deadline."""
    rest = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return False
        data = os.read(reader, 65536)
        if not data:
            return True
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            method, row, named = json.loads(line)
            getattr(table, method)(*row, **named)
