// SPDX-License-Identifier: Apache-2.0
#include "http/router.h"

#include <algorithm>
#include <array>
#include <exception>

#include <nlohmann/json.hpp>

#include "http/pages.h"

namespace pillion::http {

enum class Route : std::uint8_t {
  home,
  profile,
  pprof_index,
  pprof_gpu,
  pprof_idle,
  pprof_sync,
  pprof_cpu,
  pprof_heap,
  pprof_allocs,
  pprof_cmdline,
  status,
  metrics,
  healthz,
  readyz
};

struct RouteRow {
  std::string_view path;
  Route route;
  bool health;  // served on -health-listen, too
};

namespace {

constexpr std::array kRoutes = {
    RouteRow{"/", Route::home, false},
    RouteRow{"/profile", Route::profile, false},
    RouteRow{"/debug/pprof/", Route::pprof_index, false},
    RouteRow{"/debug/pprof", Route::pprof_index, false},
    RouteRow{"/debug/pprof/gpu", Route::pprof_gpu, false},
    RouteRow{"/debug/pprof/idle", Route::pprof_idle, false},
    RouteRow{"/debug/pprof/sync", Route::pprof_sync, false},
    RouteRow{"/debug/pprof/profile", Route::pprof_cpu, false},
    RouteRow{"/debug/pprof/heap", Route::pprof_heap, false},
    RouteRow{"/debug/pprof/allocs", Route::pprof_allocs, false},
    RouteRow{"/debug/pprof/cmdline", Route::pprof_cmdline, false},
    RouteRow{"/status", Route::status, false},
    RouteRow{"/metrics", Route::metrics, true},
    RouteRow{"/healthz", Route::healthz, true},
    RouteRow{"/readyz", Route::readyz, true},
};

const RouteRow* find_route(const std::string& path, bool health_only) {
  for (const auto& row : kRoutes) {
    if (row.path == path && (row.health || !health_only)) return &row;
  }
  return nullptr;
}

const ProfileType* fixed_type(Route route) {
  static constexpr ProfileType kGpu = ProfileType::gpu;
  static constexpr ProfileType kIdle = ProfileType::idle;
  static constexpr ProfileType kSync = ProfileType::sync;
  static constexpr ProfileType kCpu = ProfileType::cpu;
  static constexpr ProfileType kHeap = ProfileType::heap;
  static constexpr ProfileType kAllocs = ProfileType::allocs;
  switch (route) {
    case Route::pprof_gpu:
      return &kGpu;
    case Route::pprof_idle:
      return &kIdle;
    case Route::pprof_sync:
      return &kSync;
    case Route::pprof_cpu:
      return &kCpu;
    case Route::pprof_heap:
      return &kHeap;
    case Route::pprof_allocs:
      return &kAllocs;
    default:
      return nullptr;
  }
}

bool takes_window(Route route) { return route == Route::profile || fixed_type(route) != nullptr; }

Reply text_reply(std::string text) {
  Reply reply;
  reply.body = std::move(text);
  return reply;
}

Reply html_reply(std::string_view html) {
  Reply reply;
  reply.content_type = "text/html; charset=utf-8";
  reply.body = html;
  return reply;
}

// The page runs what this server gave it, and talks to this server alone: also where a process's name or a
// function's is markup. Blobs are what it offers to be saved.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Reply file_reply(const StaticFile& file) {
  Reply reply;
  reply.content_type = file.content_type;
  reply.body = file.body;
  reply.headers = {{"Content-Security-Policy", kPagePolicy},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cache-Control", "no-cache"},
                   {"Vary", "Accept"}};
  return reply;
}

Reply condition_reply(const Condition& condition, ErrorCode code, const char* hint) {
  if (condition.ok) return text_reply("ok\n");
  return error_reply({code, condition.reason, hint});
}

std::string file_name(const ProfileRequest& request) {
  return std::string("pillion-") + to_string(request.type) + file_suffix(request.format);
}

}  // namespace

Reply error_reply(const ServiceError& error) {
  Reply reply;
  reply.status = http_status(error.code);
  reply.content_type = "application/json";
  reply.body = error_body(error);
  if (error.code == ErrorCode::method_not_allowed) reply.headers.emplace_back("Allow", "GET, HEAD");
  if (error.code == ErrorCode::unauthorized) {
    reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"pillion\"");
    reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"pillion\"");
  }
  return reply;
}

Reply Router::handle(const Request& request, const Surface& surface) {
  const auto* row = find_route(request.path, surface.health_only);
  Reply reply;
  try {
    reply = answer(request, surface);
  } catch (const std::exception& error) {
    reply = error_reply({ErrorCode::internal, error.what(), "this is a bug in pillion"});
  }
  const bool known = row != nullptr || find_file(request, surface) != nullptr;
  count(known ? request.path : "other", reply.status);
  return reply;
}

// The page is for who asks for HTML; curl gets the index at "/".
const StaticFile* Router::find_file(const Request& request, const Surface& surface) const {
  if (surface.health_only) return nullptr;
  if (request.path == "/" && request.accept.find("text/html") == std::string::npos) return nullptr;
  const auto found = std::find_if(config_.page.begin(), config_.page.end(),
                                  [&](const auto& file) { return file.path == request.path; });
  return found == config_.page.end() ? nullptr : &*found;
}

// What is decided before anybody looks at the path.
std::optional<ServiceError> Router::refuse(const Request& request, const Surface& surface) {
  if (request.method != "GET" && request.method != "HEAD") {
    return ServiceError{ErrorCode::method_not_allowed, "method " + request.method + " is not allowed",
                        "use GET or HEAD"};
  }
  if (!surface.hosts.passes(request.host)) {
    return ServiceError{ErrorCode::host_not_allowed,
                        "the Host header names neither this machine's loopback nor the address of -listen",
                        "use http://localhost with the port, or start pillion with -allow-host NAME"};
  }
  const bool other_page = request.fetch_site == "cross-site" || request.fetch_site == "same-site";
  if (other_page && !surface.health_only && request.fetch_mode != "navigate") {
    return ServiceError{ErrorCode::foreign_page,
                        "a page of another origin asked for this, and would open windows that nobody wanted",
                        "open the address itself, or ask from the page at /"};
  }
  if (surface.token && !surface.token->admits(request.authorization)) {
    const bool none = request.authorization.empty();
    return ServiceError{ErrorCode::unauthorized,
                        none ? "a token is needed here" : "not the token of this pillion",
                        "send the header `Authorization: Bearer TOKEN` with the token in the file that "
                        "-token-file names, or ask http://pillion:TOKEN@HOST:PORT"};
  }
  return std::nullopt;
}

Reply Router::answer(const Request& request, const Surface& surface) {
  if (const auto refused = refuse(request, surface)) return error_reply(*refused);
  if (const auto* file = find_file(request, surface)) {
    if (auto names = check_names(request.parameters, {}); !names) return error_reply(names.error());
    return file_reply(*file);
  }
  const auto* row = find_route(request.path, surface.health_only);
  if (row == nullptr) {
    return error_reply(
        {ErrorCode::not_found, "no such path",
         surface.health_only ? "here are /healthz, /readyz and /metrics" : "/ lists what is here"});
  }
  if (takes_window(row->route)) return profile(request, fixed_type(row->route));
  if (auto names = check_names(request.parameters, {}); !names) return error_reply(names.error());
  return plain(*row);
}

Reply Router::plain(const RouteRow& row) {
  switch (row.route) {
    case Route::home:
      return html_reply(home_page());
    case Route::pprof_index:
      return html_reply(pprof_index_page());
    case Route::pprof_cmdline:
      return text_reply(config_.command_line);
    case Route::status:
      return status();
    case Route::metrics:
      return metrics();
    case Route::healthz:
      return condition_reply(service_.alive(), ErrorCode::not_alive, "/status says more");
    case Route::readyz:
      return condition_reply(service_.ready(), ErrorCode::no_shim,
                             "/status says what was seen and what to do");
    default:
      break;
  }
  return error_reply({ErrorCode::internal, "a path without a handler", ""});
}

Reply Router::profile(const Request& request, const ProfileType* type) {
  const auto parsed = parse_profile_request(request.parameters, type);
  if (!parsed) return error_reply(parsed.error());
  Reply reply;
  reply.content_type = content_type(parsed->format);
  if (parsed->format == ProfileFormat::pprof) {  // the others are read in a browser
    reply.headers.emplace_back("Content-Disposition", "attachment; filename=\"" + file_name(*parsed) + "\"");
  }
  reply.headers.emplace_back("Cache-Control", "no-store");
  if (request.method == "HEAD") return reply;

  if (windows_running_.fetch_add(1, std::memory_order_relaxed) >= config_.windows_max) {
    windows_running_.fetch_sub(1, std::memory_order_relaxed);
    return error_reply({ErrorCode::too_many_windows,
                        std::to_string(config_.windows_max) + " windows are already open, the most at a time",
                        "try again when one has ended; hanging up ends a window"});
  }
  reply.slot = WindowSlot(&windows_running_);

  ServiceResult result = service_.profile(*parsed, request.hung_up);
  if (request.hung_up.stop_requested()) {
    const std::lock_guard lock(mutex_);
    ++counters_.hang_ups;
  }
  if (!result) {
    auto error = error_reply(result.error());
    error.slot = std::move(reply.slot);
    return error;
  }
  reply.status = result->status;
  if (!result->content_type.empty()) reply.content_type = std::move(result->content_type);
  std::move(result->headers.begin(), result->headers.end(), std::back_inserter(reply.headers));
  // Where the body may not say it: folded has no comments.
  if (!result->empty_because.empty())
    reply.headers.emplace_back("Pillion-Empty", std::move(result->empty_because));
  reply.body = std::move(result->body);
  return reply;
}

Reply Router::status() {
  nlohmann::json state = service_.status();
  state["http"] = {{"windows_running", windows_running_.load(std::memory_order_relaxed)},
                   {"windows_max", config_.windows_max}};
  Reply reply;
  reply.content_type = "application/json";
  reply.body = state.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return reply;
}

Reply Router::metrics() {
  ServerCounters counters;
  {
    const std::lock_guard lock(mutex_);
    counters = counters_;
  }
  counters.windows_running = windows_running_.load(std::memory_order_relaxed);
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = metrics_text(service_.metrics(), counters);
  return reply;
}

void Router::count(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++counters_.requests[{path, status}];
}

}  // namespace pillion::http
