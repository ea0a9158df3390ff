// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include <sys/mount.h>
#include <sys/stat.h>

#include "commands/command_fixture.h"
#include "commands/copy_file.h"
#include "commands/program_files.h"

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

class InstallFixture : public CommandFixture {
 public:
  InstallFixture() : from(folder / "from"), to(folder / "to") {
    set_log_level(LogLevel::error);
    for (const auto& made : {from, from / "lib", to}) fs::create_directory(made);
    write_file(from / "libpillion.so", "the shim");
    write_file(from / "lib" / "libcupti.so.2025.3.1", "cupti 13.0");
    fs::create_symlink("libcupti.so.2025.3.1", from / "lib" / "libcupti.so.13");
    fs::create_symlink("libcupti.so.13", from / "lib" / "libcupti.so");
    write_file(from / "lib" / "libcupti_static.a", "not wanted");
  }

  int install_into(const fs::path& target, const std::vector<std::string>& cupti_dirs = {}) {
    Options options;
    options.install_dir = target;
    options.cupti_dirs = cupti_dirs;
    return install(options, from);
  }

  [[nodiscard]] std::vector<std::string> installed() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(to)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const fs::path from;
  const fs::path to;
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

ino_t inode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_ino;
}

// What a command prints: stdout goes to a file while this lives.
class CapturedStdout {
 public:
  explicit CapturedStdout(const fs::path& path) : path_(path), saved_(::dup(1)) {
    std::fflush(stdout);
    REQUIRE(std::freopen(path.c_str(), "w", stdout) != nullptr);
  }
  ~CapturedStdout() { (void)text(); }
  std::string text() {
    std::fflush(stdout);
    if (saved_ >= 0) {
      ::dup2(saved_, 1);
      ::close(saved_);
      saved_ = -1;
    }
    return contents(path_);
  }

 private:
  fs::path path_;
  int saved_;
};

TEST_CASE_METHOD(InstallFixture,
                 "install copies the shim and each CUPTI once, and prints the variable to set") {
  CapturedStdout output(folder / "stdout");
  const int code = install_into(to);
  const auto printed = output.text();
  CHECK(code == kDone);
  CHECK(printed == "CUDA_INJECTION64_PATH=" + fs::canonical(to).string() + "/libpillion.so\n");
  CHECK(installed() == std::vector<std::string>{"libcupti.so.13", "libpillion.so"});
  CHECK(contents(to / "libpillion.so") == "the shim");
  CHECK(contents(to / "libcupti.so.13") == "cupti 13.0");
  CHECK(mode_of(to / "libpillion.so") == 0755);
  CHECK(mode_of(to / "libcupti.so.13") == 0644);
  CHECK(fs::is_regular_file(fs::symlink_status(to / "libcupti.so.13")));
}

TEST_CASE_METHOD(InstallFixture,
                 "install again changes nothing; a new shim replaces the old file, not its bytes") {
  REQUIRE(install_into(to) == kDone);
  const auto before = inode_of(to / "libpillion.so");
  REQUIRE(install_into(to) == kDone);
  CHECK(inode_of(to / "libpillion.so") == before);

  std::ifstream mapped_by_somebody(to / "libpillion.so");
  write_file(from / "libpillion.so", "THE SHIM");
  REQUIRE(install_into(to) == kDone);
  CHECK(inode_of(to / "libpillion.so") != before);
  CHECK(contents(to / "libpillion.so") == "THE SHIM");
  CHECK(std::string(std::istreambuf_iterator<char>(mapped_by_somebody), {}) == "the shim");
  fs::permissions(to / "libpillion.so", fs::perms::owner_read);
  REQUIRE(install_into(to) == kDone);
  CHECK(mode_of(to / "libpillion.so") == 0755);
}

TEST_CASE_METHOD(InstallFixture,
                 "further CUPTI versions come from -cupti-dir; one place for two files is an error") {
  fs::create_directory(folder / "more");
  write_file(folder / "more" / "libcupti.so.11.8", "cupti 11.8");
  write_file(folder / "more" / "libcupti.so.2022.3.0", "a file's own name: the shim does not look for it");
  CHECK(install_into(to, {folder / "more"}) == kDone);
  CHECK(installed() == std::vector<std::string>{"libcupti.so.11.8", "libcupti.so.13", "libpillion.so"});
  CHECK(install_into(to, {folder / "more", folder / "more"}) == kDone);
  write_file(folder / "more" / "libcupti.so.13", "another");
  CHECK(install_into(to, {folder / "more"}) == kInternal);
  CHECK(contents(to / "libcupti.so.13") == "cupti 13.0");
}

TEST_CASE_METHOD(InstallFixture,
                 "versions whose libraries share a name keep their folders, as the shim looks for them") {
  for (const char* version : {"12.8", "12.9"}) {
    fs::create_directories(from / "cupti" / version);
    write_file(from / "cupti" / version / "libcupti.so.12", version);
  }
  REQUIRE(install_into(to) == kDone);
  CHECK(contents(to / "cupti" / "12.8" / "libcupti.so.12") == "12.8");
  CHECK(contents(to / "cupti" / "12.9" / "libcupti.so.12") == "12.9");
  CHECK(contents(to / "libcupti.so.13") == "cupti 13.0");
}

TEST_CASE_METHOD(InstallFixture, "install says what is absent") {
  CHECK(install_into(folder / "absent") == kInternal);
  CHECK(install_into(from / "libpillion.so") == kInternal);
  CHECK(install_into(to, {folder / "absent"}) == kInternal);
  fs::remove(from / "libpillion.so");
  CHECK(install_into(to) == kInternal);
  CHECK(installed().empty());
  CHECK(find_shim(from).error().message().find(from) != std::string::npos);
}

TEST_CASE_METHOD(InstallFixture, "a copy that fails leaves the old file and no other") {
  write_file(to / "file", "old");
  // Reading a folder fails after it was opened, as a full disk fails after the first bytes.
  const auto copied = copy_file(from / "lib", to / "file", 0644);
  REQUIRE_FALSE(copied);
  CHECK(copied.error().message().find("lib") != std::string::npos);
  CHECK(installed() == std::vector<std::string>{"file"});
  CHECK(contents(to / "file") == "old");
}

TEST_CASE_METHOD(InstallFixture, "a full disk is an error that says so, and leaves nothing half") {
  if (::mount("tmpfs", to.c_str(), "tmpfs", 0, "size=64k") != 0)
    SKIP("mounting a small tmpfs needs CAP_SYS_ADMIN");
  write_file(from / "libpillion.so", std::string(1 << 20, 'x'));
  const auto copied = copy_file(from / "libpillion.so", to / "libpillion.so", 0755);
  const auto left = installed();
  CHECK(::mount("tmpfs", to.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k") == 0);
  const auto read_only = copy_file(from / "lib" / "libcupti.so.13", to / "x", 0644);
  CHECK(::umount(to.c_str()) == 0);
  REQUIRE_FALSE(copied);
  CHECK(copied.error().number == ENOSPC);
  CHECK(left.empty());
  REQUIRE_FALSE(read_only);
  CHECK(read_only.error().number == EROFS);
}

}  // namespace
}  // namespace pillion::commands
