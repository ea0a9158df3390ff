# SPDX-License-Identifier: Apache-2.0
"""libpython_walker.so for a Python program of any version from 3.9 on: calls, structures, names and lines.

Lines come from the interpreter's own decoder, fed with the line table of the CODE record: so what is compared is what
was read and sent, not what the code object says.
"""
import ctypes
import sys

FRAMES_MAX = 256
PYTHON, CUT, PARTIAL = 8, 16, 32
IN_FORCE = 1
UNPLACED = 1
RECORD_CODE, RECORD_SNAPSHOT = 35, 64


class Frame(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint32), ("offset", ctypes.c_int32), ("entry", ctypes.c_uint64)]


class Stack(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("frames", Frame * FRAMES_MAX)]


class CodeHead(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint16), ("sequence", ctypes.c_uint16), ("size", ctypes.c_uint32),
                ("id", ctypes.c_uint32), ("version", ctypes.c_uint16), ("flags", ctypes.c_uint16),
                ("first_line", ctypes.c_uint32), ("qualname", ctypes.c_uint32), ("filename", ctypes.c_uint32),
                ("lines", ctypes.c_uint32)]


class SnapshotHead(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint16), ("sequence", ctypes.c_uint16), ("size", ctypes.c_uint32),
                ("correlation", ctypes.c_uint32), ("tid", ctypes.c_uint32), ("time_ns", ctypes.c_uint64),
                ("context_key", ctypes.c_uint64), ("maps_generation", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("registers", ctypes.c_uint64 * 8), ("stack_start", ctypes.c_uint64),
                ("stack_bytes", ctypes.c_uint32), ("python_frames", ctypes.c_uint32)]


def template():
    pass


class Code:
    """A CODE record."""

    def __init__(self, data, errors):
        head = CodeHead.from_buffer_copy(data)
        at = ctypes.sizeof(CodeHead)
        self.id, self.version, self.flags, self.first_line = head.id, head.version, head.flags, head.first_line
        self.qualname = data[at:at + head.qualname].decode("utf-8", errors)
        at += head.qualname
        self.filename = data[at:at + head.filename].decode("utf-8", errors)
        at += head.filename
        self.table = data[at:at + head.lines]
        self.size = head.size

    def line(self, offset):
        if offset < 0:
            return self.first_line
        if self.version >= 0x030a:
            # A code object of some other program with this line table: only its length must be enough.
            code = template.__code__.replace(co_linetable=self.table, co_firstlineno=self.first_line)
            found = None
            for start, end, line in code.co_lines():
                if start <= offset < end:
                    found = line
            return found
        code = template.__code__.replace(co_lnotab=self.table, co_firstlineno=self.first_line)
        found = self.first_line
        for start, line in lnotab_lines(code):
            if start <= offset:
                found = line
        return found


def lnotab_lines(code):
    """dis.findlinestarts() of 3.9 goes no further than the template's own bytecode."""
    line, address = code.co_firstlineno, 0
    yield 0, line
    for step, delta in zip(code.co_lnotab[0::2], code.co_lnotab[1::2]):
        address += step
        line += delta - 256 if delta >= 128 else delta
        yield address, line


class Walker:
    def __init__(self, path, event_bytes=1 << 20):
        self.library = ctypes.CDLL(path)
        self.holding = ctypes.PyDLL(path)  # keeps the GIL
        self.library.walker_counter.restype = ctypes.c_uint64
        self.library.walker_place.restype = ctypes.c_uint64
        self.library.walker_records.restype = ctypes.c_uint64
        self.library.walker_snapshots.restype = ctypes.c_uint64
        self.library.walker_walk_ns.restype = ctypes.c_double
        self.library.walker_place_ns.restype = ctypes.c_double
        self.library.walker_offset_name.restype = ctypes.c_char_p
        self.walk = self.library.walker_walk
        self.walk_holding = self.holding.walker_walk
        self.codes = {}
        self.errors = "strict"  # of the UTF-8 that comes
        self.buffer = ctypes.create_string_buffer(2 << 20)
        self.state = self.library.walker_begin(event_bytes)

    def counter(self, name):
        return self.library.walker_counter(name.encode())

    def read_records(self):
        """Takes what the events ring has, and keeps the codes of it."""
        got = self.library.walker_records(self.buffer, ctypes.sizeof(self.buffer))
        data, at, codes = self.buffer.raw[:got], 0, 0
        while at < got:
            kind = int.from_bytes(data[at:at + 2], sys.byteorder)
            size = int.from_bytes(data[at + 4:at + 8], sys.byteorder)
            if kind == RECORD_CODE:
                code = Code(data[at:at + size], self.errors)
                self.codes[code.id] = code
                codes += 1
            at += size
        return codes

    def read_snapshots(self):
        """[(head, [Frame])] of what the stacks ring has."""
        got = self.library.walker_snapshots(self.buffer, ctypes.sizeof(self.buffer))
        data, at, out = self.buffer.raw[:got], 0, []
        while at < got:
            head = SnapshotHead.from_buffer_copy(data, at)
            tail = at + ctypes.sizeof(head) + (head.stack_bytes + 7) // 8 * 8
            out.append((head, [Frame.from_buffer_copy(data, tail + 16 * i) for i in range(head.python_frames)]))
            at += head.size
        return out

    def named(self, frames):
        """[(qualified name, file, line)] of frames whose codes have been read."""
        out = []
        for frame in frames:
            code = self.codes.get(frame.code)
            out.append((code.qualname, code.filename, code.line(frame.offset)) if code else ("?", "?", frame.code))
        return out


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def seen_by_python(frame):
    """The same from the interpreter: what traceback.walk_stack() walks."""
    out = []
    while frame is not None:
        out.append((clean(name_of(frame.f_code)), clean(frame.f_code.co_filename), frame.f_lineno))
        frame = frame.f_back
    return out


def clean(text):
    """As the wire has it: a lone surrogate is U+FFFD."""
    return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
