// SPDX-License-Identifier: Apache-2.0
#include "http/service_error.h"

#include <nlohmann/json.hpp>

namespace pillion::http {
namespace {

struct CodeRow {
  ErrorCode code;
  const char* name;
  int http_status;
  int exit_code;
};

constexpr CodeRow kCodes[] = {
    {ErrorCode::bad_parameter, "bad_parameter", 400, 2},
    {ErrorCode::bad_request, "bad_request", 400, 2},
    {ErrorCode::unauthorized, "unauthorized", 401, 4},
    {ErrorCode::foreign_page, "foreign_page", 403, 4},
    {ErrorCode::host_not_allowed, "host_not_allowed", 403, 4},
    {ErrorCode::needs_grant, "needs_grant", 403, 4},
    {ErrorCode::not_found, "not_found", 404, 2},
    {ErrorCode::unknown_pid, "unknown_pid", 404, 5},
    {ErrorCode::method_not_allowed, "method_not_allowed", 405, 2},
    {ErrorCode::request_timeout, "request_timeout", 408, 1},
    {ErrorCode::settings_in_force, "settings_in_force", 409, 4},
    {ErrorCode::subscriber_held, "subscriber_held", 409, 4},
    {ErrorCode::too_large, "too_large", 413, 1},
    {ErrorCode::too_many_windows, "too_many_windows", 429, 1},
    {ErrorCode::header_too_large, "header_too_large", 431, 1},
    {ErrorCode::internal, "internal", 500, 1},
    {ErrorCode::not_available, "not_available", 501, 1},
    {ErrorCode::no_gpu_records, "no_gpu_records", 502, 1},
    {ErrorCode::no_shim, "no_shim", 503, 3},
    {ErrorCode::refused, "refused", 503, 4},
    {ErrorCode::target_gone, "target_gone", 503, 5},
    {ErrorCode::not_alive, "not_alive", 503, 1},
    {ErrorCode::stopping, "stopping", 503, 1},
};

const CodeRow& row(ErrorCode code) {
  for (const auto& candidate : kCodes) {
    if (candidate.code == code) return candidate;
  }
  return row(ErrorCode::internal);
}

}  // namespace

const char* to_string(ErrorCode code) { return row(code).name; }

int http_status(ErrorCode code) { return row(code).http_status; }

int exit_code(ErrorCode code) { return row(code).exit_code; }

std::string error_body(const ServiceError& error) {
  const nlohmann::ordered_json body = {
      {"error", {{"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace pillion::http
