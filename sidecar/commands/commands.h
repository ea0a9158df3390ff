// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "runtime.h"

// The program's commands. Each returns an exit code: 0 done, 1 internal, 2 usage, 3 no shim, 4 refused,
// 5 target gone. Results go to stdout, everything else to stderr.
namespace pillion::commands {

enum ExitCode : int { kDone = 0, kInternal = 1, kUsage = 2, kNoShim = 3, kRefused = 4, kTargetGone = 5 };

using RuntimeFactory = std::function<std::unique_ptr<Runtime>(const Options&)>;

// Parses the arguments (without the program's name) and runs what they ask for. Called on the main thread
// before any other thread exists: it blocks the signals that it takes.
[[nodiscard]] int run(const std::vector<std::string>& arguments, const RuntimeFactory& make_runtime);

// `from`: the folder where the shim and CUPTI lie, see program_files.h.
[[nodiscard]] int serve(const Options& options, const RuntimeFactory& make_runtime);
[[nodiscard]] int record(const Options& options, const RuntimeFactory& make_runtime,
                         const std::filesystem::path& from);
[[nodiscard]] int probe(const Options& options);
[[nodiscard]] int inject(const Options& options, const std::filesystem::path& from);
[[nodiscard]] int doctor(const Options& options, const std::filesystem::path& from);
[[nodiscard]] int install(const Options& options, const std::filesystem::path& from);

}  // namespace pillion::commands
