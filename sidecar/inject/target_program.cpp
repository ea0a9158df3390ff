// SPDX-License-Identifier: Apache-2.0
#include "inject/target_program.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>

#include "base/printable.h"
#include "inject/dynamic_image.h"

namespace pillion::inject {
namespace {

constexpr const char* kStartWithShim = "start it with CUDA_INJECTION64_PATH naming libpillion.so instead";
constexpr unsigned kOldestGlibc = 17;                      // 2.17: what the shim is linked against
constexpr std::uint32_t kInternalDlopenFlag = 0x80000000;  // __RTLD_DLOPEN, glibc's include/dlfcn.h
constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr std::uint64_t kCodeBytesMax = 64u << 20;  // libc's is 1.5 MiB

struct LoadedImage {
  const MappedFile* file;
  DynamicImage image;
};

// The libraries that an injection calls into.
struct Libraries {
  const LoadedImage* libc = nullptr;
  const LoadedImage* libpthread = nullptr;
  const LoadedImage* libdl = nullptr;
  std::size_t libc_count = 0;
  bool musl = false;
};

std::optional<Refusal> check_architecture(const std::string& who, const ProcessFolder& folder,
                                          std::uint32_t thread) {
  const std::string name = "task/" + std::to_string(thread) + "/exe";
  const UniqueFd file(::openat(folder.fd(), name.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  // One that may be executed and not read is judged by its memory alone.
  if (!file.valid() || ::pread(file.get(), &header, sizeof(header), 0) != sizeof(header)) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return Refusal{RefusalReason::other_architecture, who + " is not an ELF program", kStartWithShim};
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return Refusal{RefusalReason::other_architecture, who + " is a 32-bit program",
                   "CUDA and the shim are for 64 bits"};
  if (header.e_machine != EM_X86_64)
    return Refusal{RefusalReason::other_architecture, who + " is not an x86-64 program",
                   "this shim is for x86-64"};
  return std::nullopt;
}

bool is_musl(const LoadedImage& loaded, const TargetMemory& memory) {
  const std::string_view name = file_name(loaded.file->path);
  if (name.starts_with("ld-musl-") || loaded.image.soname().starts_with("libc.musl-")) return true;
  return name == "libc.so" && loaded.image.versions(memory).empty();
}

Libraries find_libraries(const std::vector<LoadedImage>& images, const TargetMemory& memory) {
  Libraries found;
  for (const auto& loaded : images) {
    const std::string& soname = loaded.image.soname();
    if (soname == "libc.so.6") {
      found.libc = &loaded;
      ++found.libc_count;
    }
    if (soname == "libpthread.so.0") found.libpthread = &loaded;
    if (soname == "libdl.so.2") found.libdl = &loaded;
    if (is_musl(loaded, memory)) found.musl = true;
  }
  return found;
}

// The highest N of GLIBC_2.N.
unsigned glibc_minor(const DynamicImage& libc, const TargetMemory& memory) {
  static constexpr std::string_view kPrefix = "GLIBC_2.";
  unsigned highest = 0;
  for (const auto& version : libc.versions(memory)) {
    unsigned minor = 0;
    if (!version.starts_with(kPrefix)) continue;
    std::from_chars(version.data() + kPrefix.size(), version.data() + version.size(), minor);
    highest = std::max(highest, minor);
  }
  return highest;
}

std::uint64_t find_syscall_instruction(const LoadedImage& libc, const TargetMemory& memory) {
  static constexpr std::array<unsigned char, 2> kInstruction = {0x0f, 0x05};
  std::array<unsigned char, 256> code;
  const auto function = libc.image.function(memory, "syscall");
  if (!function) return 0;
  const std::size_t bytes = std::min<std::uint64_t>(function->bytes, code.size());
  if (!memory.read(function->address, code.data(), bytes)) return 0;
  const auto* end = code.begin() + bytes;
  const auto* at = std::search(code.cbegin(), end, kInstruction.begin(), kInstruction.end());
  return at == end ? 0 : function->address + static_cast<std::uint64_t>(at - code.cbegin());
}

// libc's function of two instructions that ends signal handlers; it has no exported name.
std::uint64_t find_sigreturn(const LoadedImage& libc, const TargetMemory& memory) {
  static constexpr std::array<unsigned char, 9> kCode = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  std::vector<unsigned char> piece(kPieceBytes);
  for (const auto& segment : libc.image.code()) {
    const std::uint64_t bytes = std::min(segment.bytes, kCodeBytesMax);
    for (std::uint64_t at = 0; at + kCode.size() <= bytes; at += kPieceBytes - kCode.size() + 1) {
      const std::size_t wanted = std::min<std::uint64_t>(kPieceBytes, bytes - at);
      if (!memory.read(segment.address + at, piece.data(), wanted)) break;
      const auto end = piece.begin() + static_cast<std::ptrdiff_t>(wanted);
      const auto found = std::search(piece.begin(), end, kCode.begin(), kCode.end());
      if (found != end) return segment.address + at + static_cast<std::uint64_t>(found - piece.begin());
    }
  }
  return 0;
}

// The address of the first of `names` in the first image that has it.
std::uint64_t find_function(const TargetMemory& memory, std::initializer_list<const LoadedImage*> images,
                            const char* name) {
  for (const auto* loaded : images) {
    if (loaded == nullptr) continue;
    if (const auto function = loaded->image.function(memory, name)) return function->address;
  }
  return 0;
}

TargetFunctions find_functions(const Libraries& libraries, const TargetMemory& memory) {
  const auto* libc = libraries.libc;
  TargetFunctions functions;
  functions.pthread_create = find_function(memory, {libc, libraries.libpthread}, "pthread_create");
  functions.dlopen = find_function(memory, {libc, libraries.libdl}, "dlopen");
  functions.dlerror = find_function(memory, {libc, libraries.libdl}, "dlerror");
  if (functions.dlopen == 0) {
    functions.dlopen = find_function(memory, {libc}, "__libc_dlopen_mode");
    functions.dlopen_flag = kInternalDlopenFlag;
    functions.dlerror = 0;
  }
  functions.pthread_detach = find_function(memory, {libc, libraries.libpthread}, "pthread_detach");
  functions.munmap = find_function(memory, {libc}, "munmap");
  functions.syscall_instruction = find_syscall_instruction(*libc, memory);
  functions.sigreturn = find_sigreturn(*libc, memory);
  return functions;
}

std::optional<Refusal> check_functions(const std::string& who, const TargetFunctions& functions) {
  std::string missing;
  const auto need = [&missing](std::uint64_t address, const char* name) {
    if (address == 0) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(functions.pthread_create, "pthread_create");
  need(functions.dlopen, "dlopen");
  need(functions.munmap, "munmap");
  need(functions.syscall_instruction, "a syscall instruction in syscall()");
  need(functions.sigreturn, "a sigreturn");
  if (missing.empty()) return std::nullopt;
  return Refusal{RefusalReason::no_loader, "the libraries of " + who + " lack " + missing, kStartWithShim};
}

// A program without a loader, whatever it may have loaded by itself: a second libc in a static program is not
// the one that its threads are made by.
bool is_static(const ProcessFolder& folder, std::uint32_t thread, const std::vector<LoadedImage>& images) {
  const auto exe = folder.link("task/" + std::to_string(thread) + "/exe");
  const auto program = std::find_if(images.begin(), images.end(), [&exe](const LoadedImage& loaded) {
    return exe && (*exe == loaded.file->path || *exe == loaded.file->path + " (deleted)");
  });
  if (program == images.end()) return false;
  return !program->image.interpreter() && !program->image.soname().starts_with("ld-");
}

void check_program(const std::string& who, const TargetMemory& memory, const Libraries& libraries,
                   bool statically_linked, TargetProgram& program) {
  program.c_library = "none";
  const auto refuse = [&program](RefusalReason kind, std::string reason, std::string hint) {
    program.refusal = Refusal{kind, std::move(reason), std::move(hint)};
  };
  if (libraries.musl && libraries.libc == nullptr) {
    program.c_library = "musl";
    return refuse(RefusalReason::musl, who + " runs on musl, and the shim needs glibc",
                  "run the program in an image with glibc");
  }
  if (statically_linked)
    return refuse(RefusalReason::static_program,
                  who + " is statically linked: it has no loader that could load the shim",
                  "link it dynamically");
  if (libraries.libc == nullptr)
    return refuse(RefusalReason::no_loader, who + " has not loaded glibc (libc.so.6)", kStartWithShim);
  const unsigned minor = glibc_minor(libraries.libc->image, memory);
  program.c_library = "glibc, with symbols up to 2." + std::to_string(minor);
  program.c_library_path = libraries.libc->file->path;
  if (libraries.libpthread == nullptr) program.not_loaded.push_back("libpthread.so.0");
  if (libraries.libdl == nullptr) program.not_loaded.push_back("libdl.so.2");
  if (libraries.libc_count > 1)
    return refuse(RefusalReason::no_loader,
                  who +
                      " has loaded libc.so.6 twice (dlmopen or LD_AUDIT), and which one is the program's "
                      "cannot be told",
                  kStartWithShim);
  if (minor < kOldestGlibc)
    return refuse(RefusalReason::old_glibc,
                  who + " runs on glibc 2." + std::to_string(minor) + ", and the shim needs 2.17 or newer",
                  "run the program on a newer system");
  program.functions = find_functions(libraries, memory);
  program.refusal = check_functions(who, program.functions);
}

}  // namespace

TargetProgram look_at_program(const std::string& who, const ProcessFolder& folder, std::uint32_t thread) {
  TargetProgram program;
  const std::string task = "task/" + std::to_string(thread);
  const auto maps = folder.read(task + "/maps");
  if (!maps) {
    program.refusal = Refusal{RefusalReason::failed,
                              "the memory of " + who + " cannot be read: " + maps.error().message(), ""};
    return program;
  }
  const TargetMemory memory(thread);
  const std::vector<MappedFile> files = parse_mapped_files(*maps);
  std::vector<LoadedImage> images;
  for (const auto& file : files) {
    auto image = DynamicImage::read(memory, file.base);
    if (!image) continue;
    const std::string_view name = file_name(file.path);
    if (name.starts_with("libcuda.so")) program.cuda_library = file.path;
    if (name.starts_with("libcupti.so") || name.starts_with("libcupti-")) program.cupti_library = file.path;
    if (name.starts_with("libpillion.so") || image->soname() == "libpillion.so")
      program.shim_library = file.path;
    images.push_back({&file, std::move(*image)});
  }
  program.refusal = check_architecture(who, folder, thread);
  if (program.refusal) return program;
  check_program(who, memory, find_libraries(images, memory), is_static(folder, thread, images), program);
  return program;
}

}  // namespace pillion::inject
