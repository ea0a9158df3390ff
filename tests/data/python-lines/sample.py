# SPDX-License-Identifier: Apache-2.0
# Compiled, never run: code whose line tables use every kind of entry. It has to compile with CPython 3.9.
import asyncio


def decorated(function):
    return function


@decorated
@decorated
def calls_over_several_lines(first,
                             second=1):
    value = first(
        second,
        first(second,
              first),
        [item
         for item in
         range(10)
         if item])
    return (value +
            second *
            first)


def lines_that_go_back(x):
    while (x <
           10):
        x = (
            x
            + 1
        )
        if x == 5: continue
        try:
            x += int("1")
        except (ValueError,
                TypeError) as error:
            raise RuntimeError(
                str(error)) from error
        finally:
            print(x)
    else:
        x = 0
    return x


class Model:
    layers = [lambda value: value + 1,
              lambda value:
              value * 2]

    def forward(self, value):
        for layer in self.layers:
            value = layer(value)
        with open("/dev/null") as one, \
                open("/dev/null") as two:
            one.write(two.read())
        assert value, \
            "no value"
        return {key: [inner for inner in range(key)] for key in range(value)}

    async def serve(self):
        async with asyncio.Lock():
            async for item in self.items():
                await asyncio.sleep(
                    item)

    async def items(self):
        yield 1
        yield 2


def generator():
    received = yield
    yield from (received
                for _ in range(3))


def far_apart(x):
    y = x
















































































































































    return y + 1


def long_line(a):
    if a: return [[a, 1, 2, 3], [a, 4, 5, 6], [a, 7, 8, 9], a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9, a.b.c.d.e.f(a.g, a.h, a.i), {"k": a, "l": a, "m": a, "n": [a, a, a, a, a, a, a, a, a, a, a, a]}, a - 1, a - 2, a - 3, a - 4, a - 5, a - 6, a - 7, a - 8, a - 9, a * 1, a * 2, a * 3, a * 4, a * 5, a * 6]
    return a


def many_lines(x):
    x0 = x + 0
    x1 = x + 1
    x2 = x + 2
    x3 = x + 3
    x4 = x + 4
    x5 = x + 5
    x6 = x + 6
    x7 = x + 7
    x8 = x + 8
    x9 = x + 9
    x10 = x + 10
    x11 = x + 11
    x12 = x + 12
    x13 = x + 13
    x14 = x + 14
    x15 = x + 15
    x16 = x + 16
    x17 = x + 17
    x18 = x + 18
    x19 = x + 19
    x20 = x + 20
    x21 = x + 21
    x22 = x + 22
    x23 = x + 23
    x24 = x + 24
    x25 = x + 25
    x26 = x + 26
    x27 = x + 27
    x28 = x + 28
    x29 = x + 29
    x30 = x + 30
    x31 = x + 31
    x32 = x + 32
    x33 = x + 33
    x34 = x + 34
    x35 = x + 35
    x36 = x + 36
    x37 = x + 37
    x38 = x + 38
    x39 = x + 39
    x40 = x + 40
    x41 = x + 41
    x42 = x + 42
    x43 = x + 43
    x44 = x + 44
    x45 = x + 45
    x46 = x + 46
    x47 = x + 47
    x48 = x + 48
    x49 = x + 49
    x50 = x + 50
    x51 = x + 51
    x52 = x + 52
    x53 = x + 53
    x54 = x + 54
    x55 = x + 55
    x56 = x + 56
    x57 = x + 57
    x58 = x + 58
    x59 = x + 59
    x60 = x + 60
    x61 = x + 61
    x62 = x + 62
    x63 = x + 63
    x64 = x + 64
    x65 = x + 65
    x66 = x + 66
    x67 = x + 67
    x68 = x + 68
    x69 = x + 69
    x70 = x + 70
    x71 = x + 71
    x72 = x + 72
    x73 = x + 73
    x74 = x + 74
    x75 = x + 75
    x76 = x + 76
    x77 = x + 77
    x78 = x + 78
    x79 = x + 79
    x80 = x + 80
    x81 = x + 81
    x82 = x + 82
    x83 = x + 83
    x84 = x + 84
    x85 = x + 85
    x86 = x + 86
    x87 = x + 87
    x88 = x + 88
    x89 = x + 89
    x90 = x + 90
    x91 = x + 91
    x92 = x + 92
    x93 = x + 93
    x94 = x + 94
    x95 = x + 95
    x96 = x + 96
    x97 = x + 97
    x98 = x + 98
    x99 = x + 99
    x100 = x + 100
    x101 = x + 101
    x102 = x + 102
    x103 = x + 103
    x104 = x + 104
    x105 = x + 105
    x106 = x + 106
    x107 = x + 107
    x108 = x + 108
    x109 = x + 109
    x110 = x + 110
    x111 = x + 111
    x112 = x + 112
    x113 = x + 113
    x114 = x + 114
    x115 = x + 115
    x116 = x + 116
    x117 = x + 117
    x118 = x + 118
    x119 = x + 119
    return x
