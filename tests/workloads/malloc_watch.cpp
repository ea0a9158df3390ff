// SPDX-License-Identifier: Apache-2.0
//
// Preloaded: a malloc of the program's own, as jemalloc or tcmalloc would be, that looks who calls it. A call
// is libpillion.so's when that is the innermost module on the stack besides libc and the dynamic linker. At
// the end it writes to MALLOC_WATCH_REPORT, a line each: all calls, those of libpillion.so within
// InitializeInjection, on its own threads, and on threads of the program.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

enum Caller { kStart, kControl, kCapture, kProgram, kCallers };

std::atomic<unsigned long> all_calls{0};
std::atomic<unsigned long> calls[kCallers];
thread_local bool inside [[gnu::tls_model("initial-exec")]] = false;
pid_t owner;
bool ready;

struct Walk {
  bool decided = false;  // the innermost module is known
  bool ours = false;
  bool start = false;
};

bool passes_over(const char* file) {
  return std::strstr(file, "libmalloc_watch.so") != nullptr || std::strstr(file, "libc.so") != nullptr ||
         std::strstr(file, "ld-linux") != nullptr || std::strstr(file, "libgcc_s") != nullptr;
}

_Unwind_Reason_Code visit(_Unwind_Context* context, void* user) {
  auto* walk = static_cast<Walk*>(user);
  void* at = reinterpret_cast<void*>(_Unwind_GetIP(context) - 1);
  Dl_info info{};
  if (dladdr(at, &info) == 0 || info.dli_fname == nullptr) return _URC_NO_REASON;
  if (!walk->decided) {
    if (passes_over(info.dli_fname)) return _URC_NO_REASON;
    walk->decided = true;
    walk->ours = std::strstr(info.dli_fname, "libpillion.so") != nullptr;
    if (!walk->ours) return _URC_END_OF_STACK;
  }
  // The one function that the shim exports.
  if (info.dli_sname != nullptr && std::strcmp(info.dli_sname, "InitializeInjection") == 0)
    walk->start = true;
  return _URC_NO_REASON;
}

void look() {
  all_calls.fetch_add(1, std::memory_order_relaxed);
  if (!ready || inside) return;
  inside = true;
  const int saved_errno = errno;
  Walk walk;
  _Unwind_Backtrace(visit, &walk);
  if (walk.ours) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    Caller caller = kProgram;
    if (std::strcmp(name, "pillion-control") == 0) caller = kControl;
    if (std::strcmp(name, "pillion-capture") == 0) caller = kCapture;
    if (walk.start) caller = kStart;
    calls[caller].fetch_add(1, std::memory_order_relaxed);
  }
  errno = saved_errno;
  inside = false;
}

[[gnu::constructor]] void begin() {
  owner = getpid();
  ready = true;
}

[[gnu::destructor]] void report() {
  const char* path = std::getenv("MALLOC_WATCH_REPORT");
  if (path == nullptr || getpid() != owner) return;
  char text[256];
  const int length = std::snprintf(text, sizeof text,
                                   "all %lu\nstart %lu\npillion-control %lu\npillion-capture %lu\n"
                                   "program %lu\n",
                                   all_calls.load(), calls[kStart].load(), calls[kControl].load(),
                                   calls[kCapture].load(), calls[kProgram].load());
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, static_cast<std::size_t>(length)) != length) std::abort();
  close(fd);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) {
  look();
  return __libc_malloc(bytes);
}

[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes) {
  look();
  return __libc_calloc(count, bytes);
}

[[gnu::visibility("default")]] void* realloc(void* memory, std::size_t bytes) {
  look();
  return __libc_realloc(memory, bytes);
}

[[gnu::visibility("default")]] void* memalign(std::size_t alignment, std::size_t bytes) {
  look();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  look();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default")]] int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  look();
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
}
