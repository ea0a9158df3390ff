// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cupti_fit.h"
#include "cupti_search.h"

using namespace pillion::shim;

TEST_CASE("API versions name their CUDA version") {
  CHECK(cuda_version_of_cupti(130001) == 13000);
  CHECK(cuda_version_of_cupti(130100) == 13010);
  CHECK(cuda_version_of_cupti(140203) == 14020);
  CHECK(cuda_version_of_cupti(28) == 12090);
  CHECK(cuda_version_of_cupti(26) == 12080);
  CHECK(cuda_version_of_cupti(25) == 12060);
  CHECK(cuda_version_of_cupti(18) == 11080);
  CHECK(cuda_version_of_cupti(13) == 11000);
  CHECK(cuda_version_of_cupti(12) == 0);
}

TEST_CASE("a library that does not fit the driver is told by its version alone") {
  CHECK(cupti_fit(130001, 13000) == CuptiFit::fits);
  CHECK(cupti_fit(28, 13000) == CuptiFit::fits);
  CHECK(cupti_fit(18, 13000) == CuptiFit::fits);     // 11.8 recorded everything under driver 580
  CHECK(cupti_fit(17, 13000) == CuptiFit::too_old);  // 11.6 crashed it
  CHECK(cupti_fit(12, 13000) == CuptiFit::too_old);  // 10.2 too
  CHECK(cupti_fit(17, 11060) == CuptiFit::fits);
  CHECK(cupti_fit(130001, 12080) == CuptiFit::too_new);
  CHECK(cupti_fit(28, 12020) == CuptiFit::fits);  // minor versions are compatible both ways
  CHECK(cupti_fit(130001, 0) == CuptiFit::fits);  // no driver to compare with
}

TEST_CASE("versions in folder names") {
  CHECK(parse_cuda_version("13.0") == 13000);
  CHECK(parse_cuda_version("12.8") == 12080);
  CHECK(parse_cuda_version("12.8.1") == 12080);
  CHECK(parse_cuda_version("13") == 13990);
  CHECK(parse_cuda_version("11.8") == 11080);
  CHECK(parse_cuda_version("") == 0);
  CHECK(parse_cuda_version("12.") == 0);
  CHECK(parse_cuda_version("latest") == 0);
  CHECK(parse_cuda_version("2025.3.1") == 0);  // a full file name's numbers
}

TEST_CASE("names of CUPTI libraries") {
  CHECK(is_cupti_name("libcupti.so.13"));
  CHECK(is_cupti_name("libcupti.so"));
  CHECK(is_cupti_name("libcupti-1d2c3b4a.so.12"));
  CHECK_FALSE(is_cupti_name("libcuptiutil.so"));
  CHECK_FALSE(is_cupti_name("libcuda.so.1"));
  CHECK_FALSE(is_cupti_name("libcupti_static.a"));
}

TEST_CASE("the newest library not above the driver comes first") {
  const auto order = [](std::uint32_t driver) {
    CuptiCandidates candidates;
    for (const char* version : {"11.8", "12.9", "13.1", "13.0", "12.8", "14.0"}) {
      candidates.add(parse_cuda_version(version), "/x", version);
    }
    candidates.order_for(driver);
    std::vector<std::string> names;
    for (std::size_t at = 0; at < candidates.size(); ++at) names.emplace_back(candidates[at].path);
    return names;
  };
  CHECK(order(13000) ==
        std::vector<std::string>{"/x/13.0", "/x/12.9", "/x/12.8", "/x/11.8", "/x/13.1", "/x/14.0"});
  const auto old_driver = order(12080);  // the last three cannot fit: they are there to be named
  REQUIRE(old_driver.size() == 6);
  CHECK(std::vector<std::string>(old_driver.begin(), old_driver.begin() + 3) ==
        std::vector<std::string>{"/x/12.8", "/x/11.8", "/x/12.9"});
  CHECK(order(0).front() == "/x/14.0");
}

TEST_CASE("a file that names only its major is taken to fit that major") {
  CuptiCandidates candidates;
  candidates.add(parse_cuda_version("12"), "/x", "libcupti.so.12");
  candidates.add(parse_cuda_version("13"), "/x", "libcupti.so.13");
  candidates.order_for(12040);
  CHECK(std::string(candidates[0].path) == "/x/libcupti.so.12");
}

TEST_CASE("shipped libraries are found in both layouts") {
  namespace fs = std::filesystem;
  char pattern[] = "/tmp/pillion-cupti-XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  const fs::path folder = pattern;
  fs::create_directories(folder / "cupti/12.8");
  fs::create_directories(folder / "cupti/notes");
  for (const char* file : {"libcupti.so.13", "libpillion.so", "cupti/12.8/libcupti.so.12",
                           "cupti/12.8/libcupti.so.2025.1", "cupti/notes/libcupti.so.12"}) {
    std::ofstream(folder / file) << "x";
  }
  CuptiCandidates candidates;
  find_shipped_cupti(folder.c_str(), &candidates);
  candidates.order_for(13000);
  REQUIRE(candidates.size() == 2);
  CHECK(candidates[0].path == (folder / "libcupti.so.13").string());
  CHECK(candidates[1].path == (folder / "cupti/12.8/libcupti.so.12").string());
  fs::remove_all(folder);
}
