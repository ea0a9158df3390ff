/* SPDX-License-Identifier: Apache-2.0
 * Prints, from the headers that it is compiled with, what the shim's table of that CPython must say, and from
 * 3.13 on, in hex, what such an interpreter publishes of itself at the start of _PyRuntime. Link it with
 * -Wl,--unresolved-symbols=ignore-all: 3.13 has that only as part of the whole initial state. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#endif
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_debug_offsets.h>
#elif PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_ceval.h>
#include <internal/pycore_runtime_init.h>
#endif
#include <stddef.h>
#include <stdio.h>

#define SAY(name, type, field) printf(name " %zu\n", offsetof(type, field))

#if PY_VERSION_HEX >= 0x030e0000
static const _Py_DebugOffsets published = _Py_DebugOffsets_INIT(_Py_Debug_Cookie);
#elif PY_VERSION_HEX >= 0x030d0000
static _PyRuntimeState runtime = _PyRuntimeState_INIT(runtime, _Py_Debug_Cookie);
#define published runtime.debug_offsets
#endif

int main(void) {
  printf("version %d\n", PY_VERSION_HEX >> 16);
#if PY_VERSION_HEX < 0x030b0000
  SAY("thread_frame", PyThreadState, frame);
#elif PY_VERSION_HEX >= 0x030d0000
  SAY("thread_frame", PyThreadState, current_frame);
#endif
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030d0000
  SAY("thread_cframe", PyThreadState, cframe);
#endif
  SAY("thread_id", PyThreadState, thread_id);
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030d0000
  SAY("cframe_frame", _PyCFrame, current_frame);
#endif
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
  SAY("cframe_previous", _PyCFrame, previous);
#elif PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030b0000
  SAY("cframe_previous", CFrame, previous);
#endif
#if PY_VERSION_HEX < 0x030b0000
  SAY("frame_previous", PyFrameObject, f_back);
  SAY("frame_code", PyFrameObject, f_code);
  SAY("frame_instruction", PyFrameObject, f_lasti);
#else
  SAY("frame_previous", _PyInterpreterFrame, previous);
  SAY("frame_owner", _PyInterpreterFrame, owner);
#if PY_VERSION_HEX < 0x030d0000
  SAY("frame_code", _PyInterpreterFrame, f_code);
  SAY("frame_instruction", _PyInterpreterFrame, prev_instr);
#else
  SAY("frame_code", _PyInterpreterFrame, f_executable);
  SAY("frame_instruction", _PyInterpreterFrame, instr_ptr);
#endif
#if PY_VERSION_HEX < 0x030c0000
  SAY("frame_is_entry", _PyInterpreterFrame, is_entry);
#endif
#endif
  SAY("code_first_line", PyCodeObject, co_firstlineno);
  SAY("code_filename", PyCodeObject, co_filename);
#if PY_VERSION_HEX < 0x030b0000
  SAY("code_name", PyCodeObject, co_name);
#else
  SAY("code_name", PyCodeObject, co_qualname);
  SAY("code_first_traceable", PyCodeObject, _co_firsttraceable);
  SAY("code_bytecode", PyCodeObject, co_code_adaptive);
#endif
#if PY_VERSION_HEX < 0x030a0000
  SAY("code_lines", PyCodeObject, co_lnotab);
#else
  SAY("code_lines", PyCodeObject, co_linetable);
#endif
#if PY_VERSION_HEX >= 0x030c0000
  SAY("code_version", PyCodeObject, co_version);
#endif
  printf("text_ascii %zu\n", sizeof(PyASCIIObject));
  printf("text_other %zu\n", sizeof(PyCompactUnicodeObject));
#if PY_VERSION_HEX < 0x030c0000
  SAY("runtime_current", _PyRuntimeState, gilstate.tstate_current);
  SAY("runtime_interpreters", _PyRuntimeState, interpreters.head);
#endif
#if PY_VERSION_HEX >= 0x030d0000
  printf("published ");
  for (size_t at = 0; at < sizeof published; ++at) printf("%02x", ((const unsigned char*)&published)[at]);
  printf("\n");
#endif
  return 0;
}
