/* SPDX-License-Identifier: Apache-2.0
 * usage: embed SCRIPT [ARGUMENT...]: a program with an interpreter of its own, which runs the script from a
 * function of its own, and then what the script has called in_the_program on a thread that Python did not
 * make. */
#include <Python.h>
#include <pthread.h>

__attribute__((noinline)) static int work_of_the_program(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) return 1;
  return PyRun_SimpleFileEx(file, path, 1) != 0 ? 1 : 0;
}

static void* thread_of_the_program(void* unused) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* module = PyImport_AddModule("__main__");
  PyObject* done = PyObject_CallMethod(module, "in_the_program", NULL);
  if (done == NULL) PyErr_Print();
  Py_XDECREF(done);
  PyGILState_Release(state);
  return done == NULL ? (void*)1 : unused;
}

int main(int count, char** words) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  PyStatus status = PyConfig_SetBytesArgv(&config, count - 1, words + 1);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
  int failed = work_of_the_program(words[1]);
  pthread_t thread;
  void* thread_failed = (void*)1;
  Py_BEGIN_ALLOW_THREADS if (pthread_create(&thread, NULL, thread_of_the_program, NULL) == 0)
      pthread_join(thread, &thread_failed);
  Py_END_ALLOW_THREADS return Py_FinalizeEx() != 0 || failed != 0 || thread_failed != NULL;
}
