// SPDX-License-Identifier: Apache-2.0
#include "unwind/code_files.h"

#include "unwind/vdso.h"

namespace pillion::unwind {

CodeFile CodeFiles::get(TargetId target, const Mapping& mapping) {
  if (mapping.kind == MappingKind::anonymous || mapping.kind == MappingKind::vsyscall) return {};
  const Key key{target, mapping.device, mapping.inode, mapping.path};
  const auto found = known_.find(key);
  if (found != known_.end() && found->second.cfi != nullptr) return found->second;
  if (found == known_.end() && known_.size() >= kKnownMax) return {};
  const CodeFile file = mapping.kind == MappingKind::vdso ? open_vdso() : open_file(target, mapping);
  known_[key] = file;
  return file;
}

void CodeFiles::forget(TargetId target) {
  known_.erase(known_.lower_bound(Key{target, 0, 0, {}}), known_.lower_bound(Key{target + 1, 0, 0, {}}));
}

CodeFile CodeFiles::open_vdso() { return add(own_vdso(), "[vdso]"); }

CodeFile CodeFiles::open_file(TargetId target, const Mapping& mapping) {
  auto fd = source_.open(target, mapping);
  if (fd) {
    auto file = add({std::make_shared<const UniqueFd>(std::move(*fd)), nullptr}, mapping.path);
    if (file.info != nullptr) return file;
  } else {
    ++counters_.unreadable;
  }
  return {files_.add_unreadable(mapping.path, mapping.device, mapping.inode), nullptr};
}

CodeFile CodeFiles::add(ElfBytes bytes, const std::string& path) {
  auto elf = ElfFile::open(std::move(bytes), path);
  if (!elf) {
    ++counters_.unreadable;
    return {};
  }
  auto info = files_.add(*elf);
  if (info == nullptr) return {};
  const auto found = tables_.find(info->id);
  if (found != tables_.end()) return {info, found->second.get()};
  if (tables_.size() >= kOpenMax) return {info, nullptr};
  // The table's own descriptor, so that the one that came now can be closed.
  auto own = ElfFile::open(info->content, path);
  if (!own) return {info, nullptr};
  ++counters_.opened;
  auto& table = tables_[info->id];
  table = std::make_unique<CfiTable>(std::move(*own));
  return {info, table.get()};
}

}  // namespace pillion::unwind
