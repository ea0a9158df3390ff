// SPDX-License-Identifier: Apache-2.0
#include "base/demangle.h"

#include <catch2/catch_test_macros.hpp>
#include <random>

using namespace pillion;

TEST_CASE("C++ and Rust names are made readable, others stay") {
  CHECK(demangle("_ZN2at6native4copyERKNS_6TensorEi") == "at::native::copy(at::Tensor const&, int)");
  CHECK(demangle("_Z6kernelIfLi128EEvPT_S1_i") == "void kernel<float, 128>(float*, float*, int)");
  CHECK(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE") == "core::fmt::Formatter::pad");
  CHECK(demangle("_RNvC6_123foo3bar") == "123foo::bar");
  for (const std::string name :
       {"", "main", "_start", "volta_sgemm_128x64_nn", "_Z", "_R", "_Znotaname", "__Z", "[memset]"})
    CHECK(demangle(name) == name);
  const std::string with_zero("_Z1fv\0x", 7);
  CHECK(demangle(with_zero) == with_zero);
}

TEST_CASE("long names of real kernels are still made readable") {
  std::string arguments;
  for (int i = 0; i < 300; ++i) arguments += "N3cub6TensorE";
  const std::string name = "_Z1fILi1EEv" + arguments;
  REQUIRE(name.size() > 2048);
  CHECK(demangle("_Z1f" + arguments).starts_with("f(cub::Tensor, cub::Tensor"));
}

TEST_CASE("a name that expands without end is cut") {
  // Each level doubles the last: f(pair<T, T>) with T the level before, by substitution.
  std::string name = "_Z1f";
  std::string type = "1aIiiE";
  for (int level = 0; level < 24; ++level)
    type = "1aI" + type + "S" +
           (level == 0 ? "0" : std::string(1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[level])) + "_E";
  const auto text = demangle(name + type);
  CHECK(text.size() <= kDemangledMax + 3);
  CHECK(text.size() > 100);
  const std::string huge = "_Z1f" + std::string(kMangledMax, 'P') + "i";
  CHECK(demangle(huge) == huge);
  const std::string deep = "_Z1f" + std::string(kMangledMax - 100, 'P') + "i";
  CHECK_FALSE(demangle(deep).empty());
}

TEST_CASE("a name that stands for gigabytes is cut") {
  // Each template argument list names the one before twice.
  std::string bomb = "_Z1f1aIiE";
  for (int i = 0; i < 30; ++i) {
    const std::string last = std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_";
    bomb += "S_I" + last + last + "E";
  }
  CHECK(demangle(bomb).size() == kDemangledMax + 3);
}

TEST_CASE("mutated names never fault") {
  const std::string seeds[] = {"_ZNSt8functionIFvRKN3c1013intrusive_ptrINS0_10TensorImplEEEEEC2ERKS5_",
                               "_ZZN2at6native12_GLOBAL__N_1L6kernelERNS_14TensorIteratorEENKUlvE_clEv",
                               "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate"};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string name = seeds[random() % 3];
    for (unsigned change = 0; change < 1 + random() % 6; ++change)
      name[2 + random() % (name.size() - 2)] = "_ZNSTIELKRPFv0123456789abci"[random() % 27];
    REQUIRE(demangle(name).size() <= kDemangledMax + 3);
  }
}
