// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace pillion::http {

// Every way in which a request can fail, with one HTTP status and one exit code each (service_error.cpp).
enum class ErrorCode : std::uint8_t {
  bad_parameter,     // 400: unknown, repeated, malformed or out of range; the message names it and its range
  bad_request,       // 400: not HTTP that we can read
  unauthorized,      // 401: -token-file is given, and the request does not carry its token
  foreign_page,      // 403: a browser asks for a page of another origin
  host_not_allowed,  // 403: a Host header that is not this machine's (DNS rebinding)
  needs_grant,       // 403: a privilege is missing; the hint names it
  not_found,         // 404: no such path
  unknown_pid,       // 404: no attached process has this pid
  method_not_allowed,  // 405
  request_timeout,     // 408: the request head did not come in time
  settings_in_force,   // 409: a window with other settings is open over the same process; the message names
                       // both
  subscriber_held,     // 409: another CUPTI client holds the subscriber; the message names it
  too_large,           // 413: the profile or request passes a limit
  too_many_windows,    // 429
  header_too_large,    // 431
  internal,            // 500
  not_available,       // 501: this build or machine cannot take this kind of profile
  no_gpu_records,      // 502: launches were seen but no GPU record; the message gives the cause
  no_shim,             // 503: nothing to profile is attached; the hint says what was seen and what to do
  refused,             // 503: every selected shim refused to be armed
  target_gone,         // 503: every selected process ended before it gave anything
  not_alive,           // 503: a thread of the pipeline makes no progress
  stopping,            // 503: the program is ending
};

struct ServiceError {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // what is wrong, with names and numbers
  std::string hint;     // what a person can do; may be empty
};

// The word in {"error":{"code":...}}; stable, as the API's users match on it.
[[nodiscard]] const char* to_string(ErrorCode code);
[[nodiscard]] int http_status(ErrorCode code);

// Exit code of a command that failed with this: 1 internal, 2 usage, 3 no shim, 4 refused, 5 target gone.
[[nodiscard]] int exit_code(ErrorCode code);

// {"error":{"code","message","hint"}} and a newline. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string error_body(const ServiceError& error);

}  // namespace pillion::http
