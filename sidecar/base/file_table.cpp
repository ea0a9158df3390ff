// SPDX-License-Identifier: Apache-2.0
#include "base/file_table.h"

namespace pillion {

std::string FileInfo::name() const {
  if (!soname.empty()) return soname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::shared_ptr<const FileInfo> FileTable::add(const ElfFile& file) {
  FileInfo info;
  info.path = file.path();
  info.build_id = file.build_id();
  info.soname = file.soname();
  info.device = file.device();
  info.inode = file.inode();
  info.bytes = file.size();
  info.segments = file.segments();
  info.content = file.bytes();
  Key key{info.device, info.inode, info.bytes, info.build_id, true};
  return insert(std::move(key), std::move(info));
}

std::shared_ptr<const FileInfo> FileTable::add_unreadable(std::string path, std::uint64_t device,
                                                          std::uint64_t inode) {
  FileInfo info;
  info.device = device;
  info.inode = inode;
  // Without a build-id two containers' files can only be told apart by their path.
  Key key{device, inode, 0, path, false};
  info.path = std::move(path);
  return insert(std::move(key), std::move(info));
}

std::shared_ptr<const FileInfo> FileTable::insert(Key key, FileInfo info) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) return found->second;
  if (by_id_.size() >= kFilesMax) {
    ++refused_;
    return nullptr;
  }
  info.id = static_cast<std::uint32_t>(by_id_.size() + 1);
  auto entry = std::make_shared<const FileInfo>(std::move(info));
  by_id_.push_back(entry);
  by_key_.emplace(std::move(key), entry);
  return entry;
}

std::shared_ptr<const FileInfo> FileTable::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return id == 0 || id > by_id_.size() ? nullptr : by_id_[id - 1];
}

std::size_t FileTable::size() const {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

std::uint64_t FileTable::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace pillion
