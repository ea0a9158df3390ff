// SPDX-License-Identifier: Apache-2.0
#include "python_find.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>

#include <cstring>

#include "abi/pillion_abi.h"
#include "bounded_text.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kLibrariesMax = 8;
constexpr std::uint32_t kNameMax = 512;
constexpr std::uint32_t kReleaseCandidate = 0xc;  // release levels below it change structures

struct LibraryNames {
  std::uint32_t count;
  char name[kLibrariesMax][kNameMax];
};

// Runs under the dynamic linker's lock: copies names and leaves.
int collect_name(dl_phdr_info* info, std::size_t, void* user) {
  auto* names = static_cast<LibraryNames*>(user);
  if (info->dlpi_name == nullptr || std::strlen(info->dlpi_name) >= kNameMax) return 0;
  const char* slash = std::strrchr(info->dlpi_name, '/');
  if (std::strstr(slash != nullptr ? slash : info->dlpi_name, "python") == nullptr) return 0;
  BoundedText(names->name[names->count]).add(info->dlpi_name);
  return ++names->count == kLibrariesMax ? 1 : 0;
}

constexpr char kThreadState[] = "PyGILState_GetThisThreadState";

// The handle to ask for symbols, null for the global scope; false when there is no interpreter.
bool find_library(void** handle) {
  *handle = RTLD_DEFAULT;
  if (::dlsym(RTLD_DEFAULT, kThreadState) != nullptr) return true;
  LibraryNames names;
  names.count = 0;
  ::dl_iterate_phdr(collect_name, &names);
  for (std::uint32_t at = 0; at < names.count; ++at) {
    *handle = ::dlopen(names.name[at], RTLD_LAZY | RTLD_NOLOAD);
    if (*handle == nullptr) continue;
    if (::dlsym(*handle, kThreadState) != nullptr) return true;
    ::dlclose(*handle);
  }
  return false;
}

// "3.9.18 (main, ...)" to 0x030912f0. A sign behind the number ("3.9.0b4", "3.9.18+") is taken for what it
// is: a pre-release, or a state of the branch.
std::uint32_t parse_version(const char* text) {
  std::uint32_t part[3] = {0, 0, 0};
  for (std::uint32_t& number : part) {
    while (*text >= '0' && *text <= '9' && number < 256)
      number = number * 10 + static_cast<std::uint32_t>(*text++ - '0');
    if (*text != '.') break;
    ++text;
  }
  const std::uint32_t level = *text == 'a' ? 0xa : *text == 'b' ? 0xb : *text == 'r' ? 0xc : 0xf;
  return part[0] << 24 | part[1] << 16 | part[2] << 8 | level << 4;
}

std::uint32_t full_version(void* handle) {
  if (const void* number = ::dlsym(handle, "Py_Version"); number != nullptr)
    return static_cast<std::uint32_t>(*static_cast<const unsigned long*>(number));
  const auto text = reinterpret_cast<const char* (*)()>(::dlsym(handle, "Py_GetVersion"));
  return text != nullptr ? parse_version(text()) : 0;
}

void refuse(PythonFinding* finding, std::uint32_t state, const char* why, const char* more = "") {
  finding->state = state;
  const std::uint32_t version = finding->version;
  BoundedText text(finding->text);
  text.add("CPython ").add(std::uint64_t{version >> 24}).add(".").add(std::uint64_t{version >> 16 & 0xff});
  text.add(".").add(std::uint64_t{version >> 8 & 0xff}).add(": ").add(why).add(more);
}

bool fill_symbols(void* handle, Interpreter* out, PythonFinding* finding) {
  const auto find = [&](const char* name) {
    void* found = ::dlsym(handle, name);
    if (found == nullptr && finding->state == PILLION_PYTHON_IN_FORCE)
      refuse(finding, PILLION_PYTHON_INCOMPLETE, "it does not export ", name);
    return found;
  };
  const auto address = [&](const char* name) { return reinterpret_cast<std::uint64_t>(find(name)); };
  out->this_thread_state = reinterpret_cast<void* (*)()>(find(kThreadState));
  const bool public_name = out->offsets->version >= 0x030d;
  out->is_finalizing =
      reinterpret_cast<int (*)()>(find(public_name ? "Py_IsFinalizing" : "_Py_IsFinalizing"));
  out->runtime = address("_PyRuntime");
  out->code_type = address("PyCode_Type");
  out->frame_type = address("PyFrame_Type");
  out->text_type = address("PyUnicode_Type");
  out->bytes_type = address("PyBytes_Type");
  return finding->state == PILLION_PYTHON_IN_FORCE;
}

// Debug builds count references and may chain all objects: other structures under the same version.
bool is_debug_build(void* handle) {
  return ::dlsym(handle, "_Py_NegativeRefcount") != nullptr ||
         ::dlsym(handle, "PyModule_Create2TraceRefs") != nullptr;
}

bool check_runtime(const Interpreter& found, PythonFinding* finding) {
  if (found.offsets->version < 0x030d) return true;
  std::uint8_t copy[kPublishedBytes];
  const iovec local{copy, sizeof copy};
  const iovec remote{reinterpret_cast<void*>(found.runtime), sizeof copy};
  if (::syscall(SYS_process_vm_readv, this_pid(), &local, 1UL, &remote, 1UL, 0UL) !=
      static_cast<long>(sizeof copy)) {
    refuse(finding, PILLION_PYTHON_UNREADABLE, "_PyRuntime cannot be read");
    return false;
  }
  const char* field = "";
  switch (check_published_offsets(*found.offsets, finding->version, copy, &field)) {
    case PublishedOffsets::agree:
      return true;
    case PublishedOffsets::none:
      refuse(finding, PILLION_PYTHON_OFFSETS_DIFFER, "it publishes no offsets (_Py_DebugOffsets)");
      return false;
    case PublishedOffsets::other_version:
      refuse(finding, PILLION_PYTHON_OFFSETS_DIFFER, "its _Py_DebugOffsets are of another version");
      return false;
    case PublishedOffsets::free_threaded:
      refuse(finding, PILLION_PYTHON_FREE_THREADED, "a free-threaded build, which is not supported");
      return false;
    case PublishedOffsets::differ:
      break;
  }
  refuse(finding, PILLION_PYTHON_OFFSETS_DIFFER, "_Py_DebugOffsets has another value for ", field);
  return false;
}

// Everything that is read hangs on this call, which a seccomp filter may forbid.
bool can_look(PythonFinding* finding) {
  std::uint64_t from = 1;
  std::uint64_t to = 0;
  const iovec local{&to, sizeof to};
  const iovec remote{&from, sizeof from};
  if (::syscall(SYS_process_vm_readv, this_pid(), &local, 1UL, &remote, 1UL, 0UL) == sizeof to) return true;
  refuse(finding, PILLION_PYTHON_UNREADABLE, "process_vm_readv is not allowed in this process");
  return false;
}

// Keeps a library that somebody might unload; the program itself has no handle under that name.
void hold(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) != 0 && info.dli_fname != nullptr)
    (void)::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

bool judge(void* handle, Interpreter* out, PythonFinding* finding) {
  finding->version = full_version(handle);
  finding->state = PILLION_PYTHON_IN_FORCE;
  out->offsets = python_offsets(finding->version >> 16);
  if (out->offsets == nullptr || (finding->version >> 4 & 0xf) < kReleaseCandidate) {
    refuse(finding, PILLION_PYTHON_VERSION, "frames are known of releases of 3.9 to 3.14");
    return false;
  }
  if (is_debug_build(handle)) {
    refuse(finding, PILLION_PYTHON_DEBUG_BUILD, "a debug build, which has other structures");
    return false;
  }
  return fill_symbols(handle, out, finding) && can_look(finding) && check_runtime(*out, finding);
}

}  // namespace

bool find_python(Interpreter* out, PythonFinding* finding) {
  *out = {};
  *finding = {PILLION_PYTHON_NONE, 0, ""};
  void* handle = nullptr;
  if (!find_library(&handle)) {
    BoundedText(finding->text).add("no CPython in this process that exports its symbols");
    return false;
  }
  const bool fits = judge(handle, out, finding);
  if (handle == RTLD_DEFAULT && fits) {
    hold(reinterpret_cast<void*>(out->this_thread_state));
  } else if (handle != RTLD_DEFAULT && !fits) {
    ::dlclose(handle);
  }
  return fits;
}

}  // namespace pillion::shim
