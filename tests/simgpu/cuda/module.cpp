// SPDX-License-Identifier: Apache-2.0
#include "cuda/module.h"

#include <elf.h>

#include <cctype>
#include <cstring>
#include <map>
#include <mutex>

#include "common/knobs.h"
#include "simgpu_interface.h"

namespace simgpu {
namespace {

struct Entry {
  std::string name;
  bool first_is_u64;
};

std::mutex g_mutex;
// Leaked, as all that the truth needs: it is written while the process ends.
auto& g_modules = *new std::vector<CUmodule>;
auto& g_index = *new std::map<std::string, std::uint32_t>;  // kernel name -> dense index

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

// ".entry NAME ( .param .u64 ..." for each kernel of a PTX text.
std::vector<Entry> ptx_entries(const std::string& text) {
  std::vector<Entry> entries;
  const std::string word = ".entry";
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    at += word.size();
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    std::size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    const std::size_t close = text.find_first_of(",){", end);
    const std::string first = text.substr(end, close == std::string::npos ? close : close - end);
    entries.push_back({text.substr(at, end - at), first.find(".u64") != std::string::npos});
    at = end;
  }
  return entries;
}

// SIMGPU_KERNEL_NS: "2000" or "axpy=3000,fill=1500,*=2000"; the first part whose key is in the name counts.
std::uint64_t table_duration(const std::string& name) {
  const std::string table = knob_text("SIMGPU_KERNEL_NS");
  for (std::size_t begin = 0; begin < table.size();) {
    std::size_t end = table.find(',', begin);
    if (end == std::string::npos) end = table.size();
    const std::string part = table.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    const std::string key = equals == std::string::npos ? "*" : part.substr(0, equals);
    const std::string value = equals == std::string::npos ? part : part.substr(equals + 1);
    if (key == "*" || name.find(key) != std::string::npos) return std::strtoull(value.c_str(), nullptr, 10);
    begin = end + 1;
  }
  return 2000;
}

std::size_t elf_size(const void* image) {
  Elf64_Ehdr header{};
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
}

// The driver compiles PTX to a cubin; the double wraps the text in an ELF header, so that it looks like one.
std::string make_cubin(const std::string& ptx) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = 190;  // EM_CUDA
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  std::string cubin(reinterpret_cast<const char*>(&header), sizeof header);
  cubin += ptx;
  const std::size_t wanted = knob("SIMGPU_CUBIN_BYTES", 0);
  while (cubin.size() < wanted) cubin.push_back(static_cast<char>(cubin.size() * 131 >> 3));
  return cubin;
}

std::uint32_t index_of(const std::string& name) {
  return g_index.emplace(name, static_cast<std::uint32_t>(g_index.size())).first->second;
}

void add_function(CUmodule module, const Entry& entry) {
  const bool from_argument = entry.first_is_u64 && entry.name.find("spin") != std::string::npos;
  module->functions.push_back(std::make_unique<CUfunc_st>(
      CUfunc_st{entry.name, module, index_of(entry.name), table_duration(entry.name), from_argument}));
}

}  // namespace

CUmodule load_module(CUcontext context, const void* image) {
  auto module = std::make_unique<CUmod_st>();
  module->context = context;
  module->loaded = true;
  std::vector<Entry> entries;
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    module->cubin.assign(static_cast<const char*>(image), elf_size(image));
    entries = ptx_entries(module->cubin);  // a cubin that the double made itself
  } else {
    const std::string ptx(static_cast<const char*>(image));
    entries = ptx_entries(ptx);
    module->cubin = make_cubin(ptx);
  }
  if (entries.empty()) return nullptr;
  const std::lock_guard lock(g_mutex);
  for (const Entry& entry : entries) add_function(module.get(), entry);
  module->id = static_cast<std::uint32_t>(g_modules.size() + 1);
  g_modules.push_back(module.release());
  return g_modules.back();
}

void unload_module(CUmodule module) {
  const std::lock_guard lock(g_mutex);
  module->loaded = false;
}

CUfunction find_function(CUmodule module, const char* name) {
  for (const auto& function : module->functions) {
    if (function->name == name) return function.get();
  }
  return nullptr;
}

std::vector<CUmodule> all_modules() {
  const std::lock_guard lock(g_mutex);
  return g_modules;
}

std::vector<std::string> all_kernel_names() {
  const std::lock_guard lock(g_mutex);
  std::vector<std::string> names(g_index.size());
  for (const auto& [name, index] : g_index) names[index] = name;
  return names;
}

}  // namespace simgpu

extern "C" {

int simgpu_module_of(CUmodule module, simgpu_module_bytes* bytes) {
  if (module == nullptr) return 0;
  *bytes = {module->id, module->cubin.data(), module->cubin.size()};
  return 1;
}

// FNV-1a: an identity, as CUPTI's is; the real polynomial is not known.
std::uint64_t simgpu_cubin_crc(const void* bytes, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3u;
  }
  return hash;
}
}
