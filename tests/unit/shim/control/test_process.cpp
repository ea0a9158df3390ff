// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "abi/pillion_abi.h"
#include "bounded_text.h"
#include "control_messages.h"
#include "control_socket.h"
#include "mapped_file.h"
#include "maps_watch.h"
#include "own_proc.h"
#include "owned_fd.h"
#include "process_state.h"

using namespace pillion::shim;

namespace {

std::string slurp(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool same_inode(int fd, const char* path) {
  struct stat a {};
  struct stat b {};
  return ::fstat(fd, &a) == 0 && ::stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const std::string& name, std::size_t bytes = 8192)
      : path(std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)) {
    std::ofstream(path) << std::string(bytes, 'x');
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
};

// Maps a page of the file and returns its address.
void* map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  REQUIRE(page != MAP_FAILED);
  return page;
}

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

}  // namespace

TEST_CASE("text is cut, never overrun") {
  char small[8];
  BoundedText text(small);
  text.add("abc").add(std::uint64_t{0}).add(std::uint64_t{18446744073709551615u});
  CHECK(std::string(small) == "abc0184");
  CHECK(text.full());
}

TEST_CASE("the process knows itself") {
  ProcessIdentity self{};
  REQUIRE(read_identity(&self));
  CHECK(self.pid == static_cast<std::uint32_t>(::getpid()));
  struct stat ns {};
  REQUIRE(::stat("/proc/self/ns/pid", &ns) == 0);
  CHECK(self.pid_namespace == ns.st_ino);
  CHECK(self.start_time > 0);
  const std::string odd = "12 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 99\n";
  CHECK(parse_start_time(odd.data(), odd.size()) == 777);
  CHECK(parse_start_time("12 (x) S 1", 10) == 0);
  CHECK(parse_start_time("", 0) == 0);
}

TEST_CASE("lists of ids") {
  CHECK(list_holds("1000,65532", 65532));
  CHECK(list_holds("0", 0));
  CHECK_FALSE(list_holds("1000,65532", 6553));
  CHECK_FALSE(list_holds("", 0));
  CHECK_FALSE(list_holds(nullptr, 0));
  CHECK_FALSE(list_holds("abc,,-1,12x", 12));
  CHECK_FALSE(list_holds("4294967296", 0));
  CHECK_FALSE(list_holds("18446744073709551616", 0));
}

TEST_CASE("who may connect") {
  const AccessLists none{};
  AccessLists some{};
  BoundedText(some.uids).add("65532");
  BoundedText(some.gids).add("2000");
  CHECK(peer_allowed({1, 1000, 1}, 1000, none));
  CHECK(peer_allowed({1, 0, 1}, 1000, none));
  CHECK_FALSE(peer_allowed({1, 1001, 1000}, 1000, none));
  CHECK(peer_allowed({1, 65532, 1}, 1000, some));
  CHECK(peer_allowed({1, 7, 2000}, 1000, some));
  CHECK_FALSE(peer_allowed({1, 2000, 65532}, 1000, some));
}

TEST_CASE("messages are judged by their header and the least size of their type") {
  pillion_arm arm{};
  arm.header = {PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 9, PILLION_ARM, sizeof arm};
  char problem[192];
  const auto verdict = [&](std::size_t bytes) { return check_message(&arm, bytes, problem); };
  CHECK(verdict(sizeof arm) == Verdict::sound);
  for (std::size_t bytes = 0; bytes < 16; ++bytes) CHECK(verdict(bytes) == Verdict::garbage);
  CHECK(verdict(PILLION_ARM_BYTES_1_0 - 8) ==
        Verdict::garbage);  // header.size differs from the packet's length
  arm.header.size = PILLION_ARM_BYTES_1_0 - 8;
  CHECK(verdict(PILLION_ARM_BYTES_1_0 - 8) == Verdict::bad);
  CHECK(std::string(problem) == "ARM: size is 64, needs 72");
  std::uint8_t longer[200] = {};
  arm.header.size = sizeof longer;  // fields of a later minor version
  std::memcpy(longer, &arm, sizeof arm);
  CHECK(check_message(longer, sizeof longer, problem) == Verdict::sound);
  arm.header.size = sizeof arm;
  arm.header.type = 4000;
  CHECK(verdict(sizeof arm) == Verdict::unknown);
  arm.header.major = 2;
  CHECK(verdict(sizeof arm) == Verdict::version);
  CHECK(std::string(problem).find("2.9") != std::string::npos);
  CHECK(std::string(problem).find("1." + std::to_string(PILLION_ABI_MINOR)) != std::string::npos);
  arm.header.magic = 0;
  CHECK(verdict(sizeof arm) == Verdict::garbage);
}

TEST_CASE("a child forked while ring memory was being received closes its copies, and nothing else") {
  char folder[] = "/tmp/pillion-sweep-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  ProcessIdentity self{};
  REQUIRE(read_identity(&self));
  REQUIRE(open_socket(folder, self) == nullptr);
  const int rings = ::memfd_create("pillion-events", MFD_CLOEXEC);
  const int theirs = ::memfd_create("theirs", MFD_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) {
    close_socket_in_child(true);
    const bool rings_closed = ::fcntl(rings, F_GETFD) < 0;
    const bool theirs_open = ::fcntl(theirs, F_GETFD) >= 0;
    ::_exit(rings_closed && theirs_open ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(::fcntl(rings, F_GETFD) >= 0);  // the parent's
  ::close(rings);
  ::close(theirs);
  remove_socket_name();
  stop_listening();
  std::filesystem::remove_all(folder);
}

TEST_CASE("a descriptor that the program closed, and whose number it uses now, is left alone") {
  OwnedFd ours = OwnedFd::adopt(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  REQUIRE(ours.valid());
  CHECK(ours.number >= 200);
  CHECK((::fcntl(ours.number, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(ours.still_ours());
  const int theirs = ::open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  REQUIRE(::dup2(theirs, ours.number) == ours.number);
  CHECK_FALSE(ours.still_ours());
  const int number = ours.number;
  ours.close();
  CHECK(::fcntl(number, F_GETFD) >= 0);
  ::close(number);
  ::close(theirs);
}

TEST_CASE("the maps text is the kernel's, and its generation moves with executable mappings only") {
  const MapsText first = read_maps();
  REQUIRE(first.text != nullptr);
  CHECK(first.generation >= 1);
  CHECK(first.text[first.bytes - 1] == '\n');
  const std::string text(first.text, first.bytes);
  CHECK(text.find("unit_shim_control") != std::string::npos);
  CHECK(maps_generation() == first.generation);
  void* data = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(read_maps().generation == first.generation);
  void* code = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(read_maps().generation == first.generation + 1);
  CHECK(read_maps().generation == first.generation + 1);
  ::munmap(data, 1 << 20);
  ::munmap(code, 1 << 20);
  release_maps();
}

TEST_CASE("maps of more than the first buffer come whole, and are cut between lines") {
  std::vector<void*> pages;
  // Every second page protected otherwise: one line each, some 70 bytes.
  constexpr std::size_t kPages = 24'000;
  auto* base = static_cast<char*>(
      ::mmap(nullptr, kPages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  REQUIRE(base != MAP_FAILED);
  for (std::size_t i = 0; i < kPages; i += 2) REQUIRE(::mprotect(base + i * 4096, 4096, PROT_NONE) == 0);
  const MapsText maps = read_maps();
  REQUIRE(maps.text != nullptr);
  CHECK(maps.bytes > (1u << 20));
  const std::string text(maps.text, maps.bytes);
  CHECK(text.find("[stack]") != std::string::npos);
  std::size_t at = 0;
  std::size_t lines = 0;
  while (at < maps.bytes) {
    const std::size_t piece = whole_lines(maps.text + at, maps.bytes - at, 61440);
    REQUIRE(piece > 0);
    REQUIRE(piece <= 61440);
    REQUIRE(maps.text[at + piece - 1] == '\n');
    at += piece;
    ++lines;
  }
  CHECK(lines == (maps.bytes + 61439) / 61440);
  CHECK(whole_lines("no end", 6, 100) == 0);
  ::munmap(base, kPages * 4096);
  release_maps();
}

TEST_CASE("loading a library is noticed, once") {
  static_cast<void>(libraries_changed());
  CHECK_FALSE(libraries_changed());
  void* library = ::dlopen("libm.so.6", RTLD_NOW);
  void* other = ::dlopen("libBrokenLocale.so.1", RTLD_NOW);
  if (library == nullptr || other == nullptr) SKIP("libBrokenLocale.so.1 is not there");
  CHECK(libraries_changed());
  CHECK_FALSE(libraries_changed());
  ::dlclose(other);
  CHECK(libraries_changed());
}

TEST_CASE("the file of a mapping is handed out by the mapping's start") {
  TemporaryFile file("plain\nname");  // the newline is escaped in maps
  void* page = map_file(file.path);
  const MappedFile opened = open_mapped_file(address(page));
  REQUIRE(opened.fd >= 0);
  CHECK(opened.error == 0);
  CHECK(opened.flags == 0);
  CHECK(same_inode(opened.fd, file.path.c_str()));
  CHECK((::fcntl(opened.fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
  ::close(opened.fd);
  ::munmap(page, 4096);
  CHECK(open_mapped_file(address(page)).error == ENOENT);
  CHECK(open_mapped_file(0).error == ENOENT);
  CHECK(open_mapped_file(1).fd == -1);
}

TEST_CASE("the main program's file is found") {
  const std::string maps = slurp("/proc/self/maps");
  const std::size_t line = maps.rfind('\n', maps.find("/unit_shim_control")) + 1;  // npos + 1: the first
  const std::uint64_t start = std::stoull(maps.substr(line), nullptr, 16);
  const MappedFile opened = open_mapped_file(start);
  REQUIRE(opened.fd >= 0);
  CHECK(opened.flags == 0);
  CHECK(same_inode(opened.fd, "/proc/self/exe"));
  ::close(opened.fd);
}

TEST_CASE("a replaced file is marked, or reached by another way") {
  TemporaryFile file("replaced");
  void* page = map_file(file.path);
  struct stat mapped {};
  REQUIRE(::stat(file.path.c_str(), &mapped) == 0);
  const std::string other = file.path + ".other";
  std::ofstream(other) << std::string(8192, 'y');
  REQUIRE(::rename(other.c_str(), file.path.c_str()) == 0);
  const MappedFile opened = open_mapped_file(address(page));
  if (opened.fd >= 0) {
    struct stat got {};
    REQUIRE(::fstat(opened.fd, &got) == 0);
    // Either the very file (by the capability for map_files), or another and then it is said.
    CHECK((got.st_ino == mapped.st_ino) == (opened.flags == 0));
    ::close(opened.fd);
  } else {
    CHECK(opened.error == ESTALE);
  }
  ::munmap(page, 4096);
}

TEST_CASE("a path that became a FIFO is not opened as one") {
  TemporaryFile file("fifo");
  void* page = map_file(file.path);
  REQUIRE(::unlink(file.path.c_str()) == 0);
  REQUIRE(::mkfifo(file.path.c_str(), 0600) == 0);
  const MappedFile opened = open_mapped_file(address(page));
  if (opened.fd >= 0) {
    struct stat got {};
    REQUIRE(::fstat(opened.fd, &got) == 0);
    CHECK(S_ISREG(got.st_mode));
    ::close(opened.fd);
  } else {
    CHECK(opened.error != 0);
  }
  ::munmap(page, 4096);
}

TEST_CASE("a deleted file without the capability is an error, never another file") {
  TemporaryFile file("deleted");
  void* page = map_file(file.path);
  REQUIRE(::unlink(file.path.c_str()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    const MappedFile opened = open_mapped_file(address(page));
    ::_exit(opened.fd == -1 && opened.error == ESTALE ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  ::munmap(page, 4096);
}

TEST_CASE("what is opened for a moment does not take the place of a closed standard stream") {
  TemporaryFile file("standard");
  void* page = map_file(file.path);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int fd = 0; fd <= 2; ++fd) ::close(fd);
    const int maps = open_own_proc("maps");
    const MappedFile opened = open_mapped_file(address(page));
    const bool above = maps > 2 && opened.fd > 2;
    const bool free = ::fcntl(0, F_GETFD) == -1 && ::fcntl(1, F_GETFD) == -1 && ::fcntl(2, F_GETFD) == -1;
    ::_exit(above && free ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  ::munmap(page, 4096);
}
