// SPDX-License-Identifier: Apache-2.0
#include "inject/process_folder.h"

#include <catch2/catch_test_macros.hpp>

#include "inject/mapped_files.h"
#include "proc_fixture.h"

using namespace pillion;
using namespace pillion::inject;

TEST_CASE("status: what counts about a process") {
  const ProcessStatus status = parse_status(
      "Name:\tpt_main_thread\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t12\nNgid:\t0\nPid:\t13\n"
      "PPid:\t7\nTracerPid:\t99\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t12\t5\t1\n"
      "CapPrm:\t00000000a80425fb\nCapEff:\t0000000000080000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
      "Seccomp_filters:\t3\n");
  CHECK(status.name == "pt_main_thread");
  CHECK(status.state == 't');
  CHECK(status.thread_group == 12);
  CHECK(status.parent == 7);
  CHECK(status.tracer == 99);
  CHECK(status.uids == std::array<std::uint32_t, 4>{1, 2, 3, 4});
  CHECK(status.gids == std::array<std::uint32_t, 4>{5, 6, 7, 8});
  CHECK(status.pids == std::vector<std::uint32_t>{12, 5, 1});
  CHECK(status.permitted == 0xa80425fb);
  CHECK(status.effective == 1u << 19);
  CHECK(status.no_new_privileges);
  CHECK(status.seccomp == 2);
  CHECK(status.seccomp_filters == 3);
}

TEST_CASE("status: a kernel that does not count filters has one where there is any") {
  CHECK(parse_status("Seccomp:\t2\n").seccomp_filters == 1);
  CHECK(parse_status("Seccomp:\t0\n").seccomp_filters == 0);
  CHECK(parse_status("Seccomp:\t2\nSeccomp_filters:\t0\n").seccomp_filters == 0);
}

TEST_CASE("status: nonsense leaves the defaults") {
  const ProcessStatus status = parse_status("Name\nUid:\tx\nNSpid:\t\n:\nState:\n");
  CHECK(status.state == '?');
  CHECK(status.pids.empty());
  CHECK(status.uids == std::array<std::uint32_t, 4>{});
}

TEST_CASE("stat: a name with blanks and brackets does not shift the fields") {
  const auto stat =
      parse_stat("7 (a) 9 (b) S 1 2 3 4 5 2097216 10 11 12 13 14 15 16 17 18 19 20 21 4711 23\n");
  REQUIRE(stat);
  CHECK(stat->start_time == 4711);
  CHECK(stat->kernel_thread);
  CHECK_FALSE(parse_stat("7 (a) S 1 2 3"));
  CHECK_FALSE(parse_stat("no bracket"));
}

TEST_CASE("a folder stays that of its process") {
  FakeProc proc;
  FakeProcess process;
  process.pid = 12;
  proc.add(process);
  const auto folder = ProcessFolder::open(proc.root(), 12);
  REQUIRE(folder);
  CHECK(folder->threads() == std::vector<std::uint32_t>{12});
  CHECK(folder->read("status").value().find("train") != std::string::npos);
  // Another process with that pid: another folder of the same name.
  std::filesystem::rename(proc.root() + "/12", proc.root() + "/gone");
  process.name = "other";
  proc.add(process);
  CHECK(folder->read("status").value().find("train") != std::string::npos);
  CHECK_FALSE(ProcessFolder::open(proc.root(), 13));
}

TEST_CASE("maps: files that are loaded, with where they begin") {
  const auto files = parse_mapped_files(
      "00400000-00401000 r--p 00000000 08:01 10     /usr/bin/program\n"
      "00401000-00402000 r-xp 00001000 08:01 10     /usr/bin/program\n"
      "00402000-00403000 rw-p 00000000 00:00 0      \n"
      "00403000-00404000 rw-p 00002000 08:01 10     /usr/bin/program\n"
      "01000000-01021000 rw-p 00000000 00:00 0      [heap]\n"
      "7f0000000000-7f0000010000 r--p 00000000 08:01 11     /data/a file with blanks\n"
      "7f0000010000-7f0000020000 r--s 00010000 08:01 11     /data/a file with blanks\n"
      "7f0000020000-7f0000030000 r-xp 00000000 00:01 2053   /memfd:libpillion.so (deleted)\n"
      "7f0000030000-7f0000040000 r--p 00005000 08:01 12     /lib/only its middle\n"
      "7f0000050000-7f0000060000 r--p 00000000 08:01 13     /lib/libc.so.6 (deleted)\n"
      "7f0000060000-7f0000070000 r-xp 00010000 08:01 13     /lib/libc.so.6 (deleted)\n"
      "7ffff0000000-7ffff0001000 r-xp 00000000 00:00 0      [vdso]\n");
  REQUIRE(files.size() == 3);
  CHECK(files[0].path == "/usr/bin/program");
  CHECK(files[0].base == 0x400000);
  CHECK(files[0].end == 0x404000);
  CHECK(files[1].path == "/memfd:libpillion.so");
  CHECK(files[1].base == 0x7f0000020000);
  CHECK(files[2].path == "/lib/libc.so.6");
  CHECK(files[2].base == 0x7f0000050000);
  CHECK(file_name(files[1].path) == "libpillion.so");
  CHECK(file_name(files[2].path) == "libc.so.6");
}

TEST_CASE("maps: two copies of a file are two, nonsense is none, and the number is bounded") {
  const std::string line = "00400000-00401000 r-xp 00000000 08:01 10     /lib/a\n";
  CHECK(parse_mapped_files(line + line).size() == 2);
  CHECK(parse_mapped_files(line + line + line, 2).size() == 2);
  CHECK(parse_mapped_files("hello\n\n-\n00400000-0040\n00400000-00401000 r-xp\n").empty());
}
