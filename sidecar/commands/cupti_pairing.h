// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "commands/doctor_rows.h"

namespace pillion::commands {

// The CUDA version (1000 * major + 10 * minor) that a driver serves, by the name of its library,
// libcuda.so.580.95.05; 0 when the name does not tell.
[[nodiscard]] std::uint32_t cuda_version_of_driver(std::string_view library);

// The same of a CUPTI, by the folder cupti/13.0/ that it lies in or its name, libcupti.so.13; minor 99 when
// only the major is known; 0 when neither tells.
[[nodiscard]] std::uint32_t cuda_version_of_cupti_file(const std::filesystem::path& path);

// Which CUPTI the shim of a process would use, and whether it fits the driver.
[[nodiscard]] DoctorRow cupti_row(const inject::TargetProgram& program,
                                  const std::vector<CuptiFile>& shipped);

}  // namespace pillion::commands
