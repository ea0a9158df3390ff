// SPDX-License-Identifier: Apache-2.0
#include "inject/target_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/printable.h"
#include "inject/shortage.h"

namespace pillion::inject {
namespace {

constexpr std::size_t kPathOffset = 0;      // in the loader's text
constexpr std::uint64_t kHighNumber = 200;  // programs count on low descriptors
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Gives the target's descriptor a number that is out of its way; keeps it in `slot`.
Result<std::int64_t> move_up(LoaderLink& loader, std::int64_t number, int slot) {
  const auto low = static_cast<std::uint64_t>(number);
  auto high = loader.system_call(SYS_fcntl, {low, F_DUPFD_CLOEXEC, kHighNumber}, slot);
  if (!high) return high;
  if (*high < 0) {  // the limit of descriptors is lower
    loader.keep(slot, number);
    return number;
  }
  if (auto closed = loader.system_call(SYS_close, {low}); !closed) return closed;
  return high;
}

Result<TargetLibrary> make_memory_file(LoaderLink& loader, std::uint32_t pid, const std::string& name,
                                       int slot) {
  auto made = loader.system_call(SYS_memfd_create,
                                 {loader.put_text(kPathOffset, name), MFD_CLOEXEC | MFD_ALLOW_SEALING}, slot);
  if (!made) return tl::make_unexpected(made.error());
  if (*made < 0)
    return fail_in_target("make a memory file in the target for", name, static_cast<int>(-*made), pid);
  auto number = move_up(loader, *made, slot);
  if (!number) return tl::make_unexpected(number.error());
  // /proc/self leads nowhere once the main thread has ended.
  return TargetLibrary{*number, "/proc/thread-self/fd/" + std::to_string(*number), true};
}

// What dlerror gave: a string in the target's memory.
std::string read_string(std::uint32_t pid, std::uint64_t address) {
  char text[512] = {};
  // Page by page: what follows the string may not be there.
  for (std::size_t used = 0; used + 1 < sizeof text;) {
    const std::size_t bytes = std::min(sizeof text - 1 - used, 4096 - (address + used) % 4096);
    const iovec to{text + used, bytes};
    const iovec from{reinterpret_cast<void*>(address + used), bytes};
    if (::process_vm_readv(static_cast<pid_t>(pid), &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes))
      break;
    if (std::find(text + used, text + used + bytes, '\0') != text + used + bytes) break;
    used += bytes;
  }
  return printable(text);
}

}  // namespace

Result<TargetLibrary> make_library(LoaderLink& loader, const Examination& found, const std::string& name,
                                   int slot) {
  if (found.delivery == Delivery::memfd) return make_memory_file(loader, found.pid, name, slot);
  const std::string path = found.file_directory + "/" + name + "." + std::to_string(found.inner_pid);
  const std::uint64_t text = loader.put_text(kPathOffset, path);
  // One that an injection left behind which was broken off; ours by the claim on the process.
  if (auto gone = loader.system_call(SYS_unlink, {text}); !gone) return tl::make_unexpected(gone.error());
  auto made = loader.system_call(
      SYS_openat,
      {static_cast<std::uint64_t>(AT_FDCWD), text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700},
      slot);
  if (!made) return tl::make_unexpected(made.error());
  if (*made < 0)
    return fail_in_target("make in the target's root", path, static_cast<int>(-*made), found.pid);
  auto number = move_up(loader, *made, slot);
  if (!number) return tl::make_unexpected(number.error());
  return TargetLibrary{*number, path, false};
}

Result<void> fill_library(const TargetProcess& target, const TargetLibrary& library, int source,
                          std::uint64_t size) {
  auto file = target.descriptor(library.fd);
  if (!file) return tl::make_unexpected(file.error());
  std::vector<char> piece(std::min<std::uint64_t>(size, kPiece));
  for (std::uint64_t at = 0; at < size;) {
    const ssize_t got = ::pread(source, piece.data(), std::min<std::uint64_t>(piece.size(), size - at),
                                static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno("read", "the library for the target");
    if (auto done = write_at(file->get(), piece.data(), static_cast<std::size_t>(got), at); !done)
      return done;
    at += static_cast<std::uint64_t>(got);
  }
  if (library.in_memory) {
    (void)::fcntl(file->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  }
  return {};
}

Result<void> load_library(LoaderLink& loader, const TargetProcess& target, const Examination& found,
                          const TargetLibrary& library) {
  auto handle = loader.call(found.functions.dlopen, {loader.put_text(kPathOffset, library.path),
                                                     RTLD_NOW | std::uint64_t{found.functions.dlopen_flag}});
  if (!handle) return tl::make_unexpected(handle.error());
  if (*handle != 0) return {};
  std::string why = "the target's dynamic linker refuses it";
  if (found.functions.dlerror != 0) {
    auto text = loader.call(found.functions.dlerror, {});
    if (text && *text != 0) why = read_string(target.pid(), *text);
  }
  // The linker says in words what it ran out of.
  for (const int number : {EMFILE, ENOMEM}) {
    if (why.find(std::strerror(number)) != std::string::npos)
      why += ": " + shortage("/proc", found.pid, number);
  }
  return fail("load into process", std::to_string(found.pid), why);
}

void unlink_library(LoaderLink& loader, const TargetLibrary& library) {
  if (!library.in_memory) (void)loader.system_call(SYS_unlink, {loader.put_text(kPathOffset, library.path)});
}

}  // namespace pillion::inject
