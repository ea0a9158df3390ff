// SPDX-License-Identifier: Apache-2.0
#include "http/access.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/log.h"
#include "base/unique_fd.h"

namespace pillion::http {
namespace {

constexpr std::size_t kTokenMin = 16;
constexpr std::size_t kTokenMax = 512;
constexpr std::size_t kCredentialsMax = 1024;  // the longest token as Basic, encoded, and then some
constexpr mode_t kNotByOthers = 0027;          // written by the group; anything by others
constexpr const char* kBasicUser = "pillion";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

// RFC 6750's b64token, without its rule that '=' comes last.
bool token_character(unsigned char c) {
  return std::isalnum(c) != 0 ||
         std::string_view("-._~+/=").find(static_cast<char>(c)) != std::string_view::npos;
}

bool is_number(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool names_loopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

// Always looks at kCredentialsMax bytes, whatever is given; both are shorter.
bool equal_in_constant_time(std::string_view given, std::string_view wanted) {
  std::array<char, kCredentialsMax> left{};
  std::array<char, kCredentialsMax> right{};
  if (given.size() > left.size()) return false;
  std::copy(given.begin(), given.end(), left.begin());
  std::copy(wanted.begin(), wanted.end(), right.begin());
  volatile unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference = difference | static_cast<unsigned char>(left[i] ^ right[i]);
  }
  return difference == 0;
}

}  // namespace

HostCheck::HostCheck(const ListenAddress& listen, std::vector<std::string> allowed)
    : everything_(listen.is_unix()),
      every_number_(listen.host == "0.0.0.0" || listen.host == "::"),
      allowed_(std::move(allowed)) {
  allowed_.push_back(listen.host);
}

HostCheck HostCheck::none() { return {}; }

bool HostCheck::passes(std::string_view host_header) const {
  if (everything_ || host_header.empty()) return true;
  const auto parts = split_host_port(host_header);
  if (!parts) return false;
  const auto host = lower(parts->host);
  if (names_loopback(host) || (every_number_ && is_number(host))) return true;
  return std::any_of(allowed_.begin(), allowed_.end(), [&](const std::string& name) {
    if (name.starts_with('.')) return host.size() > name.size() && host.ends_with(name);
    return host == name;
  });
}

Result<std::string> parse_host_name(std::string_view text) {
  const auto known = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == ':';
  };
  const auto host = lower(text);
  const bool numeric_v6 = host.find(':') != std::string::npos;
  if (host.empty() || host == "." || !std::all_of(host.begin(), host.end(), known) ||
      (numeric_v6 && !is_number(host))) {
    return fail(
        "read", "'" + std::string(text) + "'",
        "not a host's name without a port, such as pillion.example.com, or .example.com for all below");
  }
  return host;
}

Result<std::string> read_token(const std::string& path) {
  const std::string object = "the token in " + path;
  // A FIFO would let us wait for its writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("read", object);
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return fail_errno("read", object);
  if (!S_ISREG(file.st_mode)) return fail("read", object, "it is no regular file");
  if (file.st_uid != 0 && file.st_uid != ::geteuid()) {
    return fail("read", object, "the file belongs to another user (uid " + std::to_string(file.st_uid) + ")");
  }
  if ((file.st_mode & kNotByOthers) != 0) {
    return fail("read", object,
                "its group may write it, or others may use it: chmod 600 or 640 (of a Secret's volume: "
                "defaultMode 0440, with fsGroup)");
  }
  std::string text(kTokenMax + 3, '\0');  // a newline, and one more to tell that it is too long
  const auto got = ::read(fd.get(), text.data(), text.size());
  if (got < 0) return fail_errno("read", object);
  text.resize(static_cast<std::size_t>(got));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.size() < kTokenMin || text.size() > kTokenMax ||
      !std::all_of(text.begin(), text.end(), token_character)) {
    return fail(
        "read", object,
        "not one word of " + std::to_string(kTokenMin) + " to " + std::to_string(kTokenMax) +
            " letters, digits and -._~+/= (head -c 32 /dev/urandom | base64 | tr +/ -_ makes one that "
            "URLs take, too)");
  }
  return text;
}

Result<TokenFile> TokenFile::open(std::string path) {
  if (auto token = read_token(path); !token) return tl::make_unexpected(token.error());
  return TokenFile(std::move(path));
}

bool TokenFile::admits(std::string_view authorization) const {
  const auto token = read_token(path_);
  if (!token) {
    const auto why = token.error().message();
    if (last_refusal_->exchange(why)) log(LogLevel::error, "nobody is let in: " + why);
    return false;
  }
  if (last_refusal_->exchange({})) log(LogLevel::info, "the token in " + path_ + " can be read again");
  const auto space = std::min(authorization.find(' '), authorization.size());
  const auto scheme = lower(authorization.substr(0, space));
  const auto word = std::min(authorization.find_first_not_of(' ', space), authorization.size());
  const auto credentials = authorization.substr(word);
  if (scheme == "bearer") return equal_in_constant_time(credentials, *token);
  if (scheme != "basic") return false;
  const auto basic = httplib::make_basic_authentication_header(kBasicUser, *token).second;
  return equal_in_constant_time(credentials, std::string_view(basic).substr(scheme.size() + 1));
}

}  // namespace pillion::http
