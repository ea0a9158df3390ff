/* SPDX-License-Identifier: Apache-2.0
 *
 * What an injector tells the shim that it has loaded into a running process, in place of the environment
 * variables of a process that was started with the shim. The injector calls pillion_start_injected with this
 * structure in memory that both share; the shim copies it, checks it, and writes the fields marked "out".
 */
#ifndef PILLION_INJECTION_H
#define PILLION_INJECTION_H

#include <stdint.h>

#include "pillion_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PILLION_INJECTION_MAGIC 0x4a4e4950u /* "PINJ" */
#define PILLION_INJECTION_CUPTI_MAX 4u

enum pillion_injection_flags {
  /* Start nothing, only fill `driver_version` and `mapped_cupti`: which CUPTI is wanted depends on them. */
  PILLION_INJECTION_ASK = 1u << 0
};

enum pillion_injection_result {
  PILLION_INJECTION_STARTED = 0,
  PILLION_INJECTION_ANSWERED = 1,       /* to PILLION_INJECTION_ASK */
  PILLION_INJECTION_STARTED_BEFORE = 2, /* this library has been started already */
  PILLION_INJECTION_VERSION = 3,        /* another major or a structure too small; text says which */
  PILLION_INJECTION_INERT = 4           /* text says why it cannot work in this process */
};

struct pillion_injected_cupti {
  uint32_t cuda_version; /* 1000 * major + 10 * minor */
  int32_t fd;            /* in the process; stays open as long as the library is loaded */
};
PILLION_ASSERT_SIZE(pillion_injected_cupti, 8);

struct pillion_injection {
  uint32_t magic;
  uint16_t major; /* PILLION_ABI_MAJOR of the injector */
  uint16_t minor;
  uint32_t size;      /* of this structure */
  uint32_t flags;     /* enum pillion_injection_flags */
  int32_t library_fd; /* of the shim's own file in the process, stays open; -1: it has a name in the file
                         system */
  uint32_t cupti_count;
  struct pillion_injected_cupti cupti[PILLION_INJECTION_CUPTI_MAX];
  char socket_directory[256]; /* empty: an abstract socket, which needs no file system */
  char allow_uids[256];       /* as PILLION_ALLOW_UID and the following variables */
  char allow_gids[256];
  char log_path[256];
  uint32_t result;         /* out: enum pillion_injection_result */
  uint32_t driver_version; /* out: cuDriverGetVersion, 0 while unknown */
  char mapped_cupti[256];  /* out: a CUPTI library that the process has loaded already; empty: none */
  char socket_name[128];   /* out: path, or '@' and the abstract name, in the process's own view */
  char text[256];          /* out */
};
PILLION_ASSERT_SIZE(pillion_injection, 24 + 32 + 4 * 256 + 8 + 256 + 128 + 256);

#define PILLION_START_INJECTED "pillion_start_injected"
/* Any thread but one inside a CUDA or CUPTI call; returns soon. Exported by libpillion.so. */
void pillion_start_injected(struct pillion_injection* injection);

#ifdef __cplusplus
}
#endif
#endif
