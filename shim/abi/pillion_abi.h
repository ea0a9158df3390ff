/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The wire between the shim (libpillion.so, inside the workload) and the sidecar (pillion).
 *
 * Two channels:
 *   - a SOCK_SEQPACKET unix socket, made by the shim, one message per packet, file descriptors by SCM_RIGHTS;
 *   - shared memory, made by the sidecar and passed with ARM: the events rings, the stacks rings, the module
 * arena.
 *
 * Rules for both ends: fixed-width fields, natural alignment, no pointers. Every message and record begins
 * with its type and size. A minor version may append fields to a message or record and may add types; a
 * reader skips and counts what it does not know and never reads past the size it was given. Another major is
 * refused, with both versions named. All times are CLOCK_MONOTONIC nanoseconds. Little-endian, x86-64 and
 * arm64.
 */
#ifndef PILLION_ABI_H
#define PILLION_ABI_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <stdint.h>
#endif

#ifdef __cplusplus
#include <cstddef>
#define PILLION_ASSERT_SIZE(type, n) static_assert(sizeof(struct type) == (n), "wire size of " #type)
#define PILLION_ASSERT_OFFSET(type, field, n) \
  static_assert(offsetof(struct type, field) == (n), "wire offset")
extern "C" {
#else
#include <stddef.h>
#define PILLION_ASSERT_SIZE(type, n) _Static_assert(sizeof(struct type) == (n), "wire size of " #type)
#define PILLION_ASSERT_OFFSET(type, field, n) \
  _Static_assert(offsetof(struct type, field) == (n), "wire offset")
#endif

#define PILLION_ABI_MAGIC 0x4e4c4950u /* "PILN" */
#define PILLION_ABI_MAJOR 1u
/* 1: record sequence numbers; 2: Python frames; 3: START, what is in force; 4: CONTEXT;
 * 5: SYNC and RETURNED */
#define PILLION_ABI_MINOR 5u

#define PILLION_SOCKET_DIR_DEFAULT "/run/pillion"
/* Socket name: pillion-<pid namespace inode>-<pid>-<start time in clock ticks>.sock, all decimal. */
#define PILLION_SOCKET_PREFIX "pillion-"
#define PILLION_SOCKET_SUFFIX ".sock"

/* ---- Control messages -------------------------------------------------------------------------------- */

#define PILLION_MESSAGE_MAX 65536u /* bytes of one packet, header included */

enum pillion_message_type {
  /* shim -> sidecar */
  PILLION_HELLO = 1,    /* first packet after accept, and the answer to QUERY */
  PILLION_BUSY = 2,     /* another sidecar is connected; the shim closes after it */
  PILLION_ARMED = 3,    /* answer to ARM */
  PILLION_REFUSED = 4,  /* answer to ARM; or unasked, version mismatch: the shim closes after it */
  PILLION_FLUSHED = 5,  /* answer to FLUSH */
  PILLION_DISARMED = 6, /* answer to DISARM, or unasked with its reason */
  PILLION_MAPS = 7,     /* one piece of /proc/self/maps; at arming, on change, and on GET_MAPS */
  PILLION_FILE = 8,     /* answer to GET_FILE; carries one fd unless error is set */
  PILLION_PYTHON = 9,   /* behind ARMED, and when it changes while armed */
  /* sidecar -> shim */
  PILLION_ARM = 64, /* carries three fds: events, stacks, arena */
  PILLION_RENEW = 65,
  PILLION_DISARM = 66,
  PILLION_FLUSH = 67,
  PILLION_GET_MAPS = 68,
  PILLION_GET_FILE = 69,
  PILLION_QUERY = 70,
  PILLION_START = 71 /* 1.3; the program that waits in cuInit (PILLION_HELLO_HELD) may go on */
};

struct pillion_message_header {
  uint32_t magic;
  uint16_t major;
  uint16_t minor;
  uint32_t type; /* enum pillion_message_type */
  uint32_t size; /* bytes of the whole message, this header included; equals the packet's length */
};
PILLION_ASSERT_SIZE(pillion_message_header, 16);

enum pillion_hello_flags {
  PILLION_HELLO_CONTEXT = 1u << 0, /* the process has a CUDA context */
  PILLION_HELLO_EAGER = 1u << 1,   /* PILLION_EAGER=1 */
  PILLION_HELLO_LATE = 1u << 2,    /* the shim was loaded after cuInit */
  PILLION_HELLO_ARMED = 1u << 3,
  PILLION_HELLO_HELD = 1u << 4 /* 1.3; cuInit waits to be armed, without a context: ARM, then START */
};

struct pillion_hello {
  struct pillion_message_header header;
  uint32_t pid; /* in the shim's own PID namespace */
  uint32_t uid;
  uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
  uint64_t start_time;    /* clock ticks since boot, field 22 of /proc/self/stat */
  uint64_t now_ns;
  uint32_t flags;          /* enum pillion_hello_flags */
  uint32_t driver_version; /* cuDriverGetVersion, 0 while unknown */
  uint32_t cupti_version;  /* cuptiGetVersion, 0 while no library is loaded */
  uint32_t reserved;
  char comm[16];
  char shim_version[32];
  char exe[256];        /* NUL-terminated, cut */
  char cupti_path[256]; /* empty while no library is loaded */
};
PILLION_ASSERT_SIZE(pillion_hello, 624);

struct pillion_busy {
  struct pillion_message_header header;
  uint32_t
      holder_pid; /* SO_PEERCRED pid of the connected sidecar, 0 when it lives outside the PID namespace */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_busy, 24);

/* What may be recorded; ARM asks, ARMED says what is really in force. */
enum pillion_kinds {
  PILLION_KIND_KERNEL = 1u << 0,
  PILLION_KIND_MEMCPY = 1u << 1,
  PILLION_KIND_MEMSET = 1u << 2,
  PILLION_KIND_PEER_COPY = 1u << 3,
  PILLION_KIND_OVERHEAD = 1u << 4,
  PILLION_KIND_STACKS = 1u << 5,
  PILLION_KIND_MODULES = 1u << 6,
  PILLION_KIND_PYTHON = 1u << 7, /* needs STACKS; may come into force after ARMED, see pillion_python */
  PILLION_KIND_SYNC = 1u << 8,   /* 1.5; host synchronisation calls, as SYNC and RETURNED; and a RETURNED for
                                    each copy that is recorded, which says whether it blocked */
  PILLION_KIND_CALLS = 1u << 9,  /* 1.5; a RETURNED for each launch */
  PILLION_KIND_ALL = (1u << 10) - 1
};

struct pillion_arm {
  struct pillion_message_header header;
  uint64_t generation;       /* > 0; grows with every session of this sidecar with this process */
  uint32_t lease_ms;         /* disarm when no message came for so long */
  uint32_t kinds;            /* enum pillion_kinds */
  uint32_t sample_permyriad; /* budget: 1/10,000 of the launching threads' time; default 100 */
  uint32_t sample_mib_per_s; /* budget: MiB of snapshots per second; default 64 */
  uint32_t stack_bytes_max;  /* cap of one snapshot; default 196,608 */
  uint32_t deadline_ms;      /* arming gives up after so long; default 15,000 */
  uint64_t events_bytes;     /* sizes of the three memfds; the shim checks them against fstat and seals */
  uint64_t stacks_bytes;
  uint64_t arena_bytes;
  /* 1.3 */
  uint32_t detach; /* enum pillion_disarm_flags of a disarm that nobody asks for: lease, peer gone */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_arm, 80);
#define PILLION_ARM_BYTES_1_0 72u /* a sidecar before 1.3 sends so much; `detach` is then FINALIZE */

struct pillion_armed {
  struct pillion_message_header header;
  uint64_t generation;
  uint64_t armed_ns; /* launches from here on have records */
  uint32_t kinds;    /* in force */
  uint32_t sample_permyriad;
  uint32_t sample_mib_per_s;
  uint32_t stack_bytes_max;
  uint32_t driver_version;
  uint32_t cupti_version;
  char cupti_path[256];
  /* 1.3: what else is in force */
  uint32_t lease_ms;
  uint32_t detach; /* enum pillion_disarm_flags */
  uint32_t events_rings;
  uint32_t events_ring_bytes;
  uint32_t stacks_rings;
  uint32_t stacks_ring_bytes;
};
PILLION_ASSERT_SIZE(pillion_armed, 336);
#define PILLION_ARMED_BYTES_1_0 312u /* a shim before 1.3 sends so much */

enum pillion_refusal {
  PILLION_REFUSAL_NONE = 0,
  PILLION_REFUSAL_VERSION = 1,         /* another major of this header; text names both */
  PILLION_REFUSAL_BAD_MESSAGE = 2,     /* text says which field */
  PILLION_REFUSAL_SUBSCRIBER_HELD = 3, /* holder names it where CUPTI tells */
  PILLION_REFUSAL_NO_CUPTI = 4,        /* no library found; text lists where */
  PILLION_REFUSAL_CUPTI_MISMATCH = 5,  /* library and driver do not fit; text names both versions */
  PILLION_REFUSAL_CUPTI_ERROR = 6,     /* cupti_result is set */
  PILLION_REFUSAL_DEADLINE = 7,        /* arming did not finish in deadline_ms */
  PILLION_REFUSAL_MEMORY = 8,          /* a ring or the arena has wrong seals, size or header */
  PILLION_REFUSAL_ACCESS = 9,          /* the peer's uid is not allowed */
  PILLION_REFUSAL_INERT = 10           /* forked child, AT_SECURE, or finalised by somebody else */
};

struct pillion_refused {
  struct pillion_message_header header;
  uint64_t generation;
  uint32_t reason;       /* enum pillion_refusal */
  uint32_t cupti_result; /* CUptiResult, 0 when it was none */
  char holder[64];
  char text[256];
};
PILLION_ASSERT_SIZE(pillion_refused, 352);

struct pillion_renew {
  struct pillion_message_header header;
  uint64_t generation;
};
PILLION_ASSERT_SIZE(pillion_renew, 24);

enum pillion_disarm_flags {
  PILLION_DISARM_FINALIZE = 1u << 0 /* finalize CUPTI where the program survives it */
};

struct pillion_disarm {
  struct pillion_message_header header;
  uint64_t generation;
  uint32_t flags;
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_disarm, 32);

enum pillion_disarm_reason {
  PILLION_DISARM_ASKED = 1,
  PILLION_DISARM_LEASE = 2,
  PILLION_DISARM_PEER_GONE = 3,
  PILLION_DISARM_CUPTI_FATAL = 4, /* STATE callback: CUPTI finalised itself */
  PILLION_DISARM_CLOBBERED = 5,   /* another CUPTI client took our registration */
  PILLION_DISARM_EXIT = 6         /* the process is about to end */
};

enum pillion_residue {
  PILLION_RESIDUE_FINALIZED = 0,   /* nothing stays behind */
  PILLION_RESIDUE_GRAPHS = 1,      /* several threads replay graphs: unsubscribed only */
  PILLION_RESIDUE_NO_API_CALL = 2, /* no API call came to finalize in */
  PILLION_RESIDUE_NOT_ASKED = 3,
  PILLION_RESIDUE_OLD_CUPTI = 4, /* API version below 24 and graphs were launched */
  PILLION_RESIDUE_FOREIGN = 5,   /* another CUPTI client has taken the registration: what runs on is its */
  PILLION_RESIDUE_DISABLED_BEFORE = 6, /* an earlier detach could not finalize: now it could kill */
  PILLION_RESIDUE_FINALIZED_OFTEN = 7  /* each finalize leaves memory behind, and there were many */
};

struct pillion_disarmed {
  struct pillion_message_header header;
  uint64_t generation;
  uint32_t reason;  /* enum pillion_disarm_reason */
  uint32_t residue; /* enum pillion_residue */
  uint64_t disarmed_ns;
  char text[128];
};
PILLION_ASSERT_SIZE(pillion_disarmed, 168);

struct pillion_flush {
  struct pillion_message_header header;
  uint64_t token;  /* comes back in FLUSHED */
  uint32_t forced; /* 0: only complete records; 1: all */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_flush, 32);

struct pillion_flushed {
  struct pillion_message_header header;
  uint64_t token;
  uint64_t begun_ns; /* what had completed before this instant is in the rings now, or counted as dropped */
  uint32_t cupti_result;
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_flushed, 40);

struct pillion_get_maps {
  struct pillion_message_header header;
  uint32_t known_generation; /* the newest the sidecar has; answered with a newer one, or the same when
                                unchanged */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_get_maps, 24);

struct pillion_maps {
  struct pillion_message_header header;
  uint32_t generation; /* of the address space's executable mappings; grows */
  uint32_t index;      /* piece number from 0 */
  uint32_t last;       /* 1 on the last piece */
  uint32_t bytes;      /* of text that follow */
  /* text: lines of /proc/self/maps, whole lines only */
};
PILLION_ASSERT_SIZE(pillion_maps, 32);

struct pillion_get_file {
  struct pillion_message_header header;
  uint64_t request; /* comes back in FILE */
  uint64_t start;   /* start address of a mapping, as in the maps text */
};
PILLION_ASSERT_SIZE(pillion_get_file, 32);

enum pillion_file_flags {
  PILLION_FILE_OTHER_INODE = 1u << 0 /* the path now leads to another file than the mapped one */
};

struct pillion_file {
  struct pillion_message_header header;
  uint64_t request;
  uint32_t error; /* errno, 0 when an fd comes along */
  uint32_t flags; /* enum pillion_file_flags */
};
PILLION_ASSERT_SIZE(pillion_file, 32);

/* Why snapshots carry Python frames or do not. */
enum pillion_python_state {
  PILLION_PYTHON_NOT_ASKED = 0,
  PILLION_PYTHON_IN_FORCE = 1,
  PILLION_PYTHON_NONE = 2,           /* no CPython in this process (yet) */
  PILLION_PYTHON_VERSION = 3,        /* a version whose structures are not known, or a pre-release */
  PILLION_PYTHON_DEBUG_BUILD = 4,    /* other structures */
  PILLION_PYTHON_FREE_THREADED = 5,  /* other structures */
  PILLION_PYTHON_OFFSETS_DIFFER = 6, /* the interpreter publishes other offsets than its version has */
  PILLION_PYTHON_INCOMPLETE = 7,     /* a symbol is missing; text names it */
  PILLION_PYTHON_UNREADABLE = 8      /* process_vm_readv is not allowed here: nothing could be read safely */
};

struct pillion_python {
  struct pillion_message_header header;
  uint64_t generation; /* of the session */
  uint32_t version;    /* as Py_Version: 0x030b02f0 is 3.11.2; 0 while unknown */
  uint32_t state;      /* enum pillion_python_state */
  char text[224];      /* for people: what was found and why it is not in force; empty when it is */
};
PILLION_ASSERT_SIZE(pillion_python, 256);

struct pillion_query {
  struct pillion_message_header header;
};
PILLION_ASSERT_SIZE(pillion_query, 16);

struct pillion_start {
  struct pillion_message_header header;
};
PILLION_ASSERT_SIZE(pillion_start, 16);

/* ---- Shared memory ------------------------------------------------------------------------------------ *
 *
 * Each of the three memfds begins with a pillion_region_header. The sidecar creates, sizes, populates, fills
 * in the header, seals (SHRINK | GROW | SEAL) and release-stores ready last. Offsets are from the start of
 * the memfd.
 *
 * A ring set is ring_count rings of ring_bytes (a power of two) each. head and tail count bytes since the
 * start and never wrap; the place of a position is position & (ring_bytes - 1), and a record may wrap. head
 * is release-stored by the shim after the bytes it covers; tail is release-stored by the sidecar after it has
 * copied them out. The shim keeps locks and its own heads in private memory: it trusts of the shared words
 * only tail, and that only after head - tail <= ring_bytes has been checked.
 */

enum pillion_region_kind { PILLION_REGION_EVENTS = 1, PILLION_REGION_STACKS = 2, PILLION_REGION_ARENA = 3 };

#define PILLION_REGION_READY 0x59444552u /* "REDY" */
#define PILLION_RINGS_MAX 64u

struct pillion_region_header {
  uint32_t magic;
  uint16_t major;
  uint16_t minor;
  uint32_t header_size; /* sizeof this struct at the writer */
  uint32_t kind;        /* enum pillion_region_kind */
  uint64_t generation;  /* that of ARM */
  uint64_t region_bytes;
  uint32_t ring_count;      /* 1..PILLION_RINGS_MAX; arena: slot_count */
  uint32_t ring_bytes;      /* power of two; arena: 0 */
  uint64_t rings_offset;    /* of ring_count pillion_ring; arena: of the pillion_module_slot table */
  uint64_t counters_offset; /* of pillion_counters; events only, else 0 */
  uint64_t data_offset;     /* of the first ring's bytes; arena: of the module bytes */
  uint32_t ready;           /* PILLION_REGION_READY, release-stored last */
  uint32_t reserved[15];
};
PILLION_ASSERT_SIZE(pillion_region_header, 128);
PILLION_ASSERT_OFFSET(pillion_region_header, ready, 64);

struct pillion_ring {
  uint64_t head; /* written by the shim */
  uint64_t head_line[7];
  uint64_t tail; /* written by the sidecar */
  uint64_t tail_line[7];
};
PILLION_ASSERT_SIZE(pillion_ring, 128);

/* Module arena: ring_count slots. The shim fills an EMPTY slot and its bytes, then release-stores FULL; the
 * sidecar copies the bytes out and release-stores EMPTY. Bytes of a slot that is not EMPTY are never
 * overwritten. */
enum pillion_slot_state { PILLION_SLOT_EMPTY = 0, PILLION_SLOT_FULL = 1 };
enum pillion_module_origin {
  PILLION_MODULE_LOADED = 1,
  PILLION_MODULE_PROFILED = 2,
  PILLION_MODULE_UNLOADED = 3
};

struct pillion_module_slot {
  uint32_t state;   /* enum pillion_slot_state */
  uint32_t origin;  /* enum pillion_module_origin; UNLOADED carries no bytes */
  uint32_t module;  /* CUPTI's module id */
  uint32_t context; /* CUPTI's context id, 0 when unknown */
  uint64_t offset;  /* from data_offset */
  uint64_t bytes;
  uint64_t crc; /* cuptiGetCubinCrc, 0 when not computed */
  uint64_t time_ns;
};
PILLION_ASSERT_SIZE(pillion_module_slot, 48);

/* Written by the shim with relaxed atomic adds, read at any time; they stay when the workload is killed. A
 * drop is a record that was never written. */
struct pillion_counters {
  uint64_t launches; /* successful pushes and drops of launch records */
  uint64_t launches_failed;
  uint64_t launches_dropped_busy;
  uint64_t launches_dropped_full;
  uint64_t executions; /* kernel, copy and set records received from CUPTI */
  uint64_t executions_dropped_busy;
  uint64_t executions_dropped_full;
  uint64_t cupti_dropped;   /* cuptiActivityGetNumDroppedRecords */
  uint64_t records_unknown; /* activity records of kinds or sizes that were not decoded */
  uint64_t snapshots;
  uint64_t snapshots_dropped_busy;
  uint64_t snapshots_dropped_full;
  uint64_t snapshots_truncated;    /* deeper than the cap */
  uint64_t snapshots_foreign;      /* taken on a fiber or signal stack, by the fault-safe copy */
  uint64_t snapshots_faulted;      /* the copy failed: registers only */
  uint64_t sampler_refused_keys;   /* key table full */
  uint64_t sampler_refused_budget; /* first launch of a key that the budget did not allow */
  uint64_t other_dropped;          /* names, threads, devices: retried later */
  uint64_t modules_stored;
  uint64_t modules_dropped; /* arena full */
  uint64_t modules_too_large;
  uint64_t foreign_buffers; /* completions of buffers that are not ours */
  uint64_t ring_resets;     /* tail past head or too far behind: a broken peer */
  uint64_t handler_ns; /* time inside launch callbacks, snapshots included; extrapolated from timed ones */
  uint64_t handler_calls;
  uint64_t snapshot_ns;
  uint64_t completion_ns; /* time inside buffer completions */
  uint64_t launching_threads;
  uint64_t sample_interval; /* N in force: one launch in N */
  uint64_t last_tick_ns;
  uint64_t python_snapshots;     /* snapshots with Python frames */
  uint64_t python_partial;       /* of those, with PILLION_SNAPSHOT_PYTHON_PARTIAL */
  uint64_t python_codes;         /* code objects that got an id */
  uint64_t python_codes_refused; /* sightings of code objects without one: table or text full, unreadable */
  uint64_t python_ns;            /* time of walking, part of snapshot_ns */
  uint64_t launches_captured;    /* into graphs: a LAUNCH_FAILED with result 0 follows the launch */
  uint64_t modules_evicted;      /* PILLION_EAGER: left the shim's own store before anybody took them */
  uint64_t syncs;                /* 1.5; synchronisation calls: successful pushes and drops of SYNC */
  uint64_t syncs_dropped;
  uint64_t returns_dropped; /* 1.5; RETURNED records that found no room: the call's duration is not known */
  uint64_t reserved[24];
};
PILLION_ASSERT_SIZE(pillion_counters, 512);

/* ---- Records ------------------------------------------------------------------------------------------ */

enum pillion_record_type {
  /* events rings */
  PILLION_RECORD_LAUNCH = 1,
  PILLION_RECORD_LAUNCH_FAILED = 2,
  PILLION_RECORD_RETURNED = 3, /* 1.5 */
  PILLION_RECORD_SYNC = 4,     /* 1.5 */
  PILLION_RECORD_KERNEL = 16,
  PILLION_RECORD_COPY = 17, /* memcpy and peer copy */
  PILLION_RECORD_SET = 18,
  PILLION_RECORD_OVERHEAD = 19,
  PILLION_RECORD_NAME = 32,
  PILLION_RECORD_THREAD = 33,
  PILLION_RECORD_DEVICE = 34,
  PILLION_RECORD_PYTHON_CODE = 35,
  PILLION_RECORD_CONTEXT = 36, /* 1.4 */
  /* stacks rings */
  PILLION_RECORD_SNAPSHOT = 64
};

struct pillion_record_header {
  uint16_t type;     /* enum pillion_record_type */
  uint16_t sequence; /* of the record within its ring and generation: 1 to 65,535, then 1 again; a gap is what
                        was lost after it was published. 0: not numbered (minor 0) */
  uint32_t size;     /* bytes of the whole record, a multiple of 8 */
};
PILLION_ASSERT_SIZE(pillion_record_header, 8);

enum pillion_launch_kind {
  PILLION_LAUNCH_KERNEL = 1,
  PILLION_LAUNCH_GRAPH = 2,
  PILLION_LAUNCH_COPY = 3,
  PILLION_LAUNCH_SET = 4,
  PILLION_LAUNCH_HOST = 5 /* cuLaunchHostFunc */
};

enum pillion_launch_flags {
  PILLION_LAUNCH_SNAPSHOT = 1u << 0, /* a snapshot with this correlation was published */
  PILLION_LAUNCH_RETURNS = 1u << 1   /* 1.5; a RETURNED or a LAUNCH_FAILED follows when the call returns */
};

struct pillion_launch {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t tid;         /* in the shim's PID namespace */
  uint64_t time_ns;     /* at ENTER */
  uint64_t context_key; /* thread, stack pointer, function and call site, hashed */
  uint64_t function;    /* CUfunction or CUgraphExec handle: an identity, never an address to follow */
  uint32_t cbid;        /* CUpti_driver_api_trace_cbid */
  uint16_t kind;        /* enum pillion_launch_kind */
  uint16_t flags;       /* enum pillion_launch_flags */
};
PILLION_ASSERT_SIZE(pillion_launch, 48);

struct pillion_launch_failed {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t
      result; /* CUresult; 0: the call was captured into a graph, and nothing of it will ever run by itself */
};
PILLION_ASSERT_SIZE(pillion_launch_failed, 16);

/* A call of which LAUNCH (with PILLION_LAUNCH_RETURNS) or SYNC told has returned. A launch that failed or was
 * captured has a LAUNCH_FAILED instead. It never comes when the thread left the call in another way, or the
 * process ended in it. */
struct pillion_returned {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t flags;   /* enum pillion_returned_flags */
  uint64_t time_ns; /* at EXIT */
};
PILLION_ASSERT_SIZE(pillion_returned, 24);

enum pillion_returned_flags {
  PILLION_RETURNED_SYNC = 1u << 0 /* of a SYNC; else of a LAUNCH */
};

/* A synchronisation call begins: the thread waits for the GPU until its RETURNED. Its correlation is of the
 * same sequence as those of launches. */
struct pillion_sync {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t tid;         /* in the shim's PID namespace */
  uint64_t time_ns;     /* at ENTER */
  uint64_t context_key; /* thread, stack pointer and call, hashed */
  uint32_t cbid;        /* CUpti_driver_api_trace_cbid */
  uint32_t context;     /* CUPTI's context id, 0 when unknown */
  uint32_t flags;       /* enum pillion_launch_flags */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_sync, 48);

/* The stamps are CUPTI's, unchecked: 0, end < start and stamps outside the session occur. */
struct pillion_kernel {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t name; /* id of a NAME record, which may come later; 0: no name */
  uint32_t graph;
  uint64_t graph_node;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t registers;
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_kernel, 96);

struct pillion_copy {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;
  uint32_t copy_kind; /* CUpti_ActivityMemcpyKind */
  uint32_t graph;
  uint64_t graph_node;
  uint32_t source_device; /* peer copies, else equal to device */
  uint32_t destination_device;
};
PILLION_ASSERT_SIZE(pillion_copy, 72);

struct pillion_set {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;
  uint32_t graph;
  uint32_t reserved;
  uint64_t graph_node;
};
PILLION_ASSERT_SIZE(pillion_set, 64);

struct pillion_overhead {
  struct pillion_record_header header;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t kind; /* CUpti_ActivityOverheadKind */
  uint32_t reserved;
};
PILLION_ASSERT_SIZE(pillion_overhead, 32);

struct pillion_name {
  struct pillion_record_header header;
  uint32_t id; /* from 1, per generation */
  uint32_t length;
  /* length bytes, mangled, not terminated, padded to 8 */
};
PILLION_ASSERT_SIZE(pillion_name, 16);

struct pillion_thread {
  struct pillion_record_header header;
  uint32_t tid;
  uint32_t reserved;
  uint64_t stack_low; /* 0 when the bounds are not known */
  uint64_t stack_high;
  char comm[16];
};
PILLION_ASSERT_SIZE(pillion_thread, 48);

struct pillion_device {
  struct pillion_record_header header;
  uint32_t device;
  uint16_t compute_major;
  uint16_t compute_minor;
  uint8_t uuid[16];
  uint32_t multiprocessors;
  uint32_t mig; /* 1 when the device is a MIG instance */
  char name[64];
};
PILLION_ASSERT_SIZE(pillion_device, 104);

/* A CUDA context of the process, sent once per session: at arming, or when it is made. Nothing tells of its
 * end. */
struct pillion_context {
  struct pillion_record_header header;
  uint32_t context; /* CUPTI's id */
  uint32_t device;
};
PILLION_ASSERT_SIZE(pillion_context, 16);

/* A Python code object, sent once per session; sent again when it found no room. It may be read later than
 * the first snapshot that names it. Two records may say the same with two ids. */
struct pillion_python_code {
  struct pillion_record_header header;
  uint32_t id;             /* from 1, per generation */
  uint16_t version;        /* minor version below major: 0x030b is 3.11; says how the line table is encoded */
  uint16_t flags;          /* enum pillion_python_code_flags */
  uint32_t first_line;     /* co_firstlineno */
  uint32_t qualname_bytes; /* co_qualname; co_name before 3.11, which has no other */
  uint32_t filename_bytes; /* co_filename */
  uint32_t line_table_bytes; /* co_lnotab (3.9), co_linetable (3.10: pairs; 3.11 on: location table) */
  /* qualname, filename (UTF-8, lone surrogates as U+FFFD), line table: one behind the other, not terminated,
     padded to 8 at the end */
};
PILLION_ASSERT_SIZE(pillion_python_code, 32);

enum pillion_python_code_flags {
  PILLION_PYTHON_CODE_NAME_CUT = 1u << 0,  /* qualname or filename was longer than the cap: cut at the end */
  PILLION_PYTHON_CODE_LINES_CUT = 1u << 1, /* the line table was too large: none is sent, only first_line */
  PILLION_PYTHON_CODE_NAME_LOST = 1u << 2  /* a string could not be read: it is empty */
};

#define PILLION_PYTHON_FRAMES_MAX 256u

enum pillion_snapshot_flags {
  PILLION_SNAPSHOT_TRUNCATED = 1u << 0,  /* the stack is deeper than the cap */
  PILLION_SNAPSHOT_FOREIGN = 1u << 1,    /* not on the thread's own stack: fiber or signal stack */
  PILLION_SNAPSHOT_FAULTED = 1u << 2,    /* the copy failed: stack_bytes is 0 or short */
  PILLION_SNAPSHOT_PYTHON = 1u << 3,     /* python_frames frames follow the stack */
  PILLION_SNAPSHOT_PYTHON_CUT = 1u << 4, /* more than PILLION_PYTHON_FRAMES_MAX: the root side is missing */
  PILLION_SNAPSHOT_PYTHON_PARTIAL = 1u << 5 /* a pointer did not hold what it must, or the thread state may be
                                               another interpreter's: frames on the root side are missing or,
                                               in the second case, on the leaf side */
};

/* One Python frame. Frames are leaf first. */
struct pillion_python_frame {
  uint32_t code;  /* id of a PYTHON_CODE record; 0: the code object got none */
  int32_t offset; /* of the current instruction in the bytecode, in bytes for every version; negative: it has
                     not begun, which is the first line */
  uint64_t entry; /* of a frame that was entered from C, i.e. the outermost of those that one native frame of
                     the interpreter's loop runs: an address within that native frame on the C stack;
                     PILLION_PYTHON_ENTRY_UNPLACED where the version leaves no trace there (3.9). 0: entered
                     from the next frame, both run in one native frame */
};
PILLION_ASSERT_SIZE(pillion_python_frame, 16);
#define PILLION_PYTHON_ENTRY_UNPLACED 1u

enum pillion_snapshot_register {
  PILLION_REG_RIP = 0,
  PILLION_REG_RSP = 1,
  PILLION_REG_RBP = 2,
  PILLION_REG_RBX = 3,
  PILLION_REG_R12 = 4,
  PILLION_REG_R13 = 5,
  PILLION_REG_R14 = 6,
  PILLION_REG_R15 = 7,
  PILLION_REG_COUNT = 8
};

struct pillion_snapshot {
  struct pillion_record_header header;
  uint32_t correlation;
  uint32_t tid;
  uint64_t time_ns;
  uint64_t context_key;
  uint32_t maps_generation; /* the newest known when the snapshot was taken; code may be newer */
  uint32_t flags;           /* enum pillion_snapshot_flags */
  uint64_t registers[PILLION_REG_COUNT];
  uint64_t stack_start; /* address of the first byte that follows; registers[RSP] lies within */
  uint32_t stack_bytes;
  uint32_t python_frames; /* with PILLION_SNAPSHOT_PYTHON, else 0 */
  /* stack_bytes bytes, padded to 8; then python_frames of struct pillion_python_frame */
};
PILLION_ASSERT_SIZE(pillion_snapshot, 120);

#ifdef __cplusplus
}
#endif
#endif
