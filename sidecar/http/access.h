// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/listen_address.h"

// Who may ask a listener: by the name under which it was asked for, and by a token.
namespace pillion::http {

// Which Host headers a listener takes. A page of somebody else's whose name was rebound to this machine's
// address makes a browser ask here, and can read the answer; but the browser sends that page's own name as
// Host.
class HostCheck {
 public:
  // `listen`: names of loopback always pass, so does its own address; where it stands for every address
  // (0.0.0.0, ::), each numeric one does, for a number cannot be rebound. On a unix socket everything passes:
  // no browser comes there. `allowed`: further names, see parse_host_name().
  HostCheck(const ListenAddress& listen, std::vector<std::string> allowed);

  // One that lets everything pass.
  [[nodiscard]] static HostCheck none();

  // Thread-safe. A header that is missing passes: browsers always send it, HTTP/1.0 probes do not.
  [[nodiscard]] bool passes(std::string_view host_header) const;

 private:
  HostCheck() = default;

  bool everything_ = true;
  bool every_number_ = false;
  std::vector<std::string> allowed_;  // in lower case; one that begins with a dot stands for what ends in it
};

// A name for `allowed`: "pillion.example.com", "10.1.2.3", "::1" without a port, or ".example.com" for every
// name below. Returns it in lower case.
[[nodiscard]] Result<std::string> parse_host_name(std::string_view text);

// The bearer token in a file: one word of letters, digits and -._~+/=, 16 to 512 of them, with or without a
// newline. The file belongs to root or to this user, and neither may its group write it nor anybody else read
// it.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

// Compares what clients send with the token in a file. The file is read for each request, so a new token
// counts from the moment at which it is there, and a file that is gone or open to others lets nobody in.
// Thread-safe.
class TokenFile {
 public:
  // The file has to be there and right at the start.
  static Result<TokenFile> open(std::string path);

  // `authorization`: the header, "Bearer TOKEN", or "Basic" with the user `pillion` and the token for a
  // password (for browsers and for URLs such as http://pillion:TOKEN@host:7070). Takes the same time for
  // every wrong token.
  [[nodiscard]] bool admits(std::string_view authorization) const;

 private:
  // Why nobody was let in at the last request; empty: that was not so.
  class Refusal {
   public:
    // True when it has changed.
    bool exchange(const std::string& why) {
      const std::lock_guard lock(mutex_);
      if (why == why_) return false;
      why_ = why;
      return true;
    }

   private:
    std::mutex mutex_;
    std::string why_;
  };

  explicit TokenFile(std::string path) : path_(std::move(path)), last_refusal_(std::make_shared<Refusal>()) {}

  std::string path_;
  std::shared_ptr<Refusal> last_refusal_;
};

}  // namespace pillion::http
