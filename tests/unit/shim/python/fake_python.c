/* SPDX-License-Identifier: Apache-2.0
 * What the shim looks for of a CPython, without an interpreter behind it. FAKE_VERSION is Py_Version;
 * FAKE_DEBUG, FAKE_FREE_THREADED, FAKE_MOVED and FAKE_NO_CODE_TYPE make it one that must be refused. */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const unsigned long Py_Version = FAKE_VERSION;

#ifndef FAKE_FREE_THREADED
#define FAKE_FREE_THREADED 0
#endif
#ifndef FAKE_MOVED
#define FAKE_MOVED 0
#endif

/* _Py_DebugOffsets of 3.13, by index of 8 bytes. */
EXPORT uint64_t _PyRuntime[96] = {
    [0] = 0x7970677562656478, /* "xdebugpy" */
    [1] = FAKE_VERSION,
    [2] = FAKE_FREE_THREADED,
    [23] = 72,
    [29] = 8,
    [30] = 0,
    [31] = 56 + FAKE_MOVED,
    [33] = 70,
    [35] = 112,
    [37] = 128,
    [38] = 136,
    [39] = 68,
    [43] = 200,
    [70] = 40,
};

EXPORT char PyFrame_Type[8], PyUnicode_Type[8], PyBytes_Type[8];
#ifndef FAKE_NO_CODE_TYPE
EXPORT char PyCode_Type[8];
#endif
#ifdef FAKE_DEBUG
EXPORT void _Py_NegativeRefcount(void) {}
#endif

EXPORT void* PyGILState_GetThisThreadState(void) { return 0; }
EXPORT int Py_IsFinalizing(void) { return 0; }
EXPORT int _Py_IsFinalizing(void) { return 0; }
