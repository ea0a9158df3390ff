// SPDX-License-Identifier: Apache-2.0
#include "discovery/process_survey.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <catch2/catch_test_macros.hpp>

#include "temporary_directory.h"

using namespace pillion;
using namespace pillion::discovery;

namespace {

void add_process(const TemporaryDirectory& proc, unsigned pid, const std::string& comm,
                 const std::string& maps) {
  const std::string path = proc / std::to_string(pid);
  std::filesystem::create_directory(path);
  std::ofstream(path + "/comm") << comm << "\n";
  std::ofstream(path + "/maps") << maps;
}

std::string mapping(const std::string& path) {
  return "7f0000000000-7f0000001000 r-xp 00000000 08:01 1234                       " + path + "\n";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("processes are told apart by what they have mapped") {
  const TemporaryDirectory proc;
  const std::string cuda = mapping("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05");
  add_process(proc, 10, "plain", mapping("/usr/lib/libc.so.6"));
  add_process(proc, 11, "train\x1b", mapping("/usr/lib/libc.so.6") + cuda);
  add_process(proc, 12, "served", cuda + mapping("/pillion/libpillion.so"));
  add_process(proc, 15, "injected", cuda + mapping("/memfd:libpillion.so (deleted)"));
  add_process(proc, 13, "runtime only", mapping("/opt/libcudart.so.13"));
  add_process(proc, 14, "kthread", "");
  std::filesystem::create_directory(proc / "self-like");
  const ProcessSurvey survey = survey_processes(proc.path());
  CHECK(survey.processes == 6);
  CHECK(survey.cuda_without_shim == 1);
  CHECK(survey.cuda_with_shim == 2);
  CHECK(survey.unreadable_count == 0);
  const std::string text = survey.text();
  CHECK(contains(text, "11 (train?, uid " + std::to_string(::getuid()) + ")"));
  CHECK(contains(text, "12 (served"));
  CHECK(contains(text, "CUDA_INJECTION64_PATH"));
  CHECK_FALSE(contains(text, "10 ("));
}

TEST_CASE("nothing with CUDA: the text says so") {
  const TemporaryDirectory proc;
  add_process(proc, 10, "plain", mapping("/usr/lib/libc.so.6"));
  CHECK(contains(survey_processes(proc.path()).text(), "none has libcuda mapped"));
}

TEST_CASE("maps longer than a buffer, with the name across its edge") {
  const TemporaryDirectory proc;
  for (int shift = 0; shift < 80; ++shift) {
    std::string maps(static_cast<std::size_t>(shift), 'x');
    maps += "\n";
    while (maps.size() < 16'300) maps += mapping("/usr/lib/libc.so.6");
    maps += mapping("/usr/lib/libcuda.so.1");
    maps += mapping("/usr/lib/libc.so.6");
    add_process(proc, 100u + static_cast<unsigned>(shift), "p", maps);
  }
  CHECK(survey_processes(proc.path()).cuda_without_shim == 80);
}

TEST_CASE("limits end a survey and are said") {
  const TemporaryDirectory proc;
  for (unsigned pid = 1; pid <= 30; ++pid) add_process(proc, pid, "p", mapping("/usr/lib/libcuda.so.1"));
  SurveyLimits limits;
  SECTION("processes") {
    limits.processes_max = 10;
    const auto survey = survey_processes(proc.path(), limits);
    CHECK(survey.processes == 10);
    CHECK(survey.cut);
    CHECK(contains(survey.text(), "not all"));
  }
  SECTION("names in the text") {
    limits.listed_max = 3;
    const auto survey = survey_processes(proc.path(), limits);
    CHECK(survey.cuda_without_shim == 30);
    CHECK(survey.cuda.size() == 3);
    CHECK(contains(survey.text(), "and 27 more"));
  }
  SECTION("bytes of all maps") {
    limits.all_maps_bytes_max = 1'000;
    const auto survey = survey_processes(proc.path(), limits);
    CHECK(survey.cut);
    CHECK(survey.processes < 30);
  }
}

TEST_CASE("processes with the shim do not take the place of those without") {
  const TemporaryDirectory proc;
  for (unsigned pid = 100; pid < 140; ++pid) {
    add_process(proc, pid, "with", mapping("/usr/lib/libcuda.so.1") + mapping("/opt/pillion/libpillion.so"));
    add_process(proc, pid + 100, "without", mapping("/usr/lib/libcuda.so.1"));
  }
  const auto survey = survey_processes(proc.path());
  CHECK(survey.cuda_with_shim == 40);
  CHECK(contains(survey.text(), "(without, uid"));
  CHECK(contains(survey.text(), "(with, uid"));
}

TEST_CASE("maps that may not be read are reported with what it takes") {
  const TemporaryDirectory proc;
  add_process(proc, 10, "closed", "");
  std::filesystem::permissions(proc / "10/maps", std::filesystem::perms::none);
  std::filesystem::permissions(proc.path(), std::filesystem::perms(0755));
  const uid_t before = ::geteuid();
  if (before == 0) REQUIRE(::seteuid(65'534) == 0);  // file modes do not stop root
  const auto survey = survey_processes(proc.path());
  REQUIRE(::seteuid(before) == 0);
  CHECK(survey.unreadable_count == 1);
  CHECK(contains(survey.text(), "not readable: 10 (closed"));
  CHECK(contains(survey.text(), "CAP_SYS_PTRACE"));
}

TEST_CASE("no /proc is an answer too") {
  const auto survey = survey_processes("/does/not/exist");
  CHECK_FALSE(survey.error.empty());
  CHECK(contains(survey.text(), "cannot list processes"));
}

TEST_CASE("the real /proc") {
  const auto survey = survey_processes();
  CHECK(survey.processes >= 1);
  CHECK(survey.error.empty());
}
