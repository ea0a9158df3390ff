// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by the compiler into every source of the shim. These functions moved into libc.so.6 with
// glibc 2.32 and 2.34 and got that version there; the old one is still exported and the only one that a glibc
// of 2.17 has (in libpthread.so.0 or libdl.so.2, which the library therefore needs by name). What is not used
// leaves no trace.
//
// Not under a sanitizer, whose interceptors answer to the default version; and arm64 began with 2.17.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PILLION_BIND(symbol, x86_64_version)
#elif defined(__x86_64__)
#define PILLION_BIND(symbol, x86_64_version) __asm__(".symver " #symbol "," #symbol "@" x86_64_version)
#elif defined(__aarch64__)
#define PILLION_BIND(symbol, x86_64_version) __asm__(".symver " #symbol "," #symbol "@GLIBC_2.17")
#endif

PILLION_BIND(dladdr, "GLIBC_2.2.5");
PILLION_BIND(dladdr1, "GLIBC_2.3.3");
PILLION_BIND(dlclose, "GLIBC_2.2.5");
PILLION_BIND(dlerror, "GLIBC_2.2.5");
PILLION_BIND(dlinfo, "GLIBC_2.3.3");
PILLION_BIND(dlopen, "GLIBC_2.2.5");
PILLION_BIND(dlsym, "GLIBC_2.2.5");
PILLION_BIND(pthread_attr_getstack, "GLIBC_2.2.5");
PILLION_BIND(pthread_attr_setstack, "GLIBC_2.2.5");
PILLION_BIND(pthread_attr_setstacksize, "GLIBC_2.2.5");
PILLION_BIND(pthread_create, "GLIBC_2.2.5");
PILLION_BIND(pthread_detach, "GLIBC_2.2.5");
PILLION_BIND(pthread_getattr_np, "GLIBC_2.2.5");
PILLION_BIND(pthread_getspecific, "GLIBC_2.2.5");
PILLION_BIND(pthread_join, "GLIBC_2.2.5");
PILLION_BIND(pthread_key_create, "GLIBC_2.2.5");
PILLION_BIND(pthread_mutex_trylock, "GLIBC_2.2.5");
PILLION_BIND(pthread_once, "GLIBC_2.2.5");
PILLION_BIND(pthread_setspecific, "GLIBC_2.2.5");
PILLION_BIND(pthread_sigmask, "GLIBC_2.2.5");
