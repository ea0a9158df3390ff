// SPDX-License-Identifier: Apache-2.0
#include "manual.h"

#include <algorithm>

#include "flags.h"
#include "variables.h"

namespace pillion {
namespace {

struct Page {
  const char* command;
  const char* usage;      // the forms of the command line
  const char* what;       // one line, for the overview and the page's head
  const char* text;       // paragraphs
  const char* arguments;  // besides flags; "": none
  const char* exits;
  const char* example;
};

constexpr Page kPages[] = {
    {"serve", "  pillion [serve] [flags]\n", "answer profiles over HTTP",
     R"(Waits for shims in the socket directory, attaches to each, and answers until it is ended (Ctrl-C, SIGTERM):

  /                    in a browser: records, shows and compares windows
  /profile?seconds=N   records for N seconds (1 to 3600; 20) and gives a profile; also type=gpu|idle|sync (what ran; why
                       the GPUs had nothing to do; the calls that waited for them), format=pprof|json|folded, pid,
                       device, kinds, sample-budget, sample-mib and stack-bytes
  /debug/pprof/TYPE    the same under the paths of Go's tools: gpu, idle, sync
  /status              what is attached, what was lost, and why a process is not attached (JSON)
  /metrics             for Prometheus
  /healthz, /readyz    whether it runs; whether a shim is attached

To type=sync, a copy is a call that waited when it is synchronous, and also when it was over before its call returned,
as a short asynchronous one may be on a busy host. A profile without anything in it says why in the header
Pillion-Empty. A process is recorded with one set of kinds, sample-budget, sample-mib and stack-bytes at a time: a
request with another, while a window is open, gets 409. Errors are JSON, with a hint.

Profiles show a program's insides, so the server answers this machine alone unless it is told otherwise: -listen beyond
loopback needs -token-file (or -insecure), and requests under a name that is not localhost, the address of -listen or one
of -allow-host are refused, for a web page could have it rebound. -listen unix:/PATH is for a socket in a shared folder
(curl --unix-socket PATH http://localhost/status). -health-listen gives liveness, readiness and /metrics alone to
everybody who reaches its address. At most 16 windows are open at a time, and 512 connections; a request's head has 64 KiB
and 5 s.

Between profiles the shims sleep. With -inject the shim is brought into programs that were started without it.
)",
     "",
     R"(  0  ended by a signal, or with -exit-with-workload by the end of the last process, also where no shim ever came
  1  an internal error, such as an address that is in use
  2  wrong usage
  3  no shim came within -wait-for-shim
  4  a shim is there that does not take this sidecar: another one holds it, or it is another user's
)",
     R"(  CUDA_INJECTION64_PATH=/opt/pillion/libpillion.so PILLION_SOCKET_DIR=/tmp/pillion your-program &
  pillion serve -socket-dir /tmp/pillion &
  curl -f -o profile.pb.gz 'localhost:7070/profile?seconds=20'
  pillion serve -listen :7070 -token-file /etc/pillion/token -allow-host gpu-7.example.com -health-listen :7071
)"},
    {"record", "  pillion record [flags] [-pid N]\n  pillion record [flags] -- COMMAND ARGS...\n",
     "write one profile to a file, of programs that run or of a command",
     R"(The first form records programs that run with the shim: all, or process N; with -inject also one without it. The
second starts COMMAND with the shim and records it from its first launch on, and needs no socket directory.

A recording ends after -duration, with the last process, or at Ctrl-C or SIGTERM, each time with a complete profile.
A second signal ends it at once, without one. It logs `recording` once its window is open.
)",
     R"(  COMMAND ARGS...  is run with this program's streams; signals that come here are passed on to it
)",
     R"(  0  the profile is written; with COMMAND its own exit status, 128 + N when signal N ended it
  1  an internal error: the file cannot be written, or an injection was begun and failed
  2  wrong usage, or COMMAND cannot be started
  3  no shim came within -wait-for-shim
  4  refused: another sidecar or tool has the process, or with -pid N -inject it cannot be injected into
  5  process N, or COMMAND before its first CUDA call, has ended
)",
     R"(  pillion record -o profile.pb.gz -- python3 train.py
  pillion record -pid 4711 -duration 20s -format folded -o profile.folded
  pillion record -pid 4711 -type idle -o idle.pb.gz
  go tool pprof -http=: profile.pb.gz
)"},
    {"inject", "  pillion inject [flags] -pid N\n", "load the shim into a CUDA process that runs",
     R"(For a program that was started without CUDA_INJECTION64_PATH. One of its threads that sleeps in a system call is
borrowed for about a millisecond to start another, which loads the shim; the program runs on, whatever becomes of this
one. The shim then sleeps until `pillion serve` or `pillion record -pid N` asks it, and stays. A shim that is there
already is no error. `pillion record -inject -pid N` is this and a profile in one.

Needs the right to trace the process: CAP_SYS_PTRACE, or its user with its capabilities. `pillion doctor -pid N` says
beforehand what would happen.
)",
     "",
     R"(  0  the shim is there, now or before
  1  the injection was begun and failed; what the process ran out of is named
  2  wrong usage
  4  refused, and the process not touched: static or musl program, no permission, traced, no CUDA, ...
  5  there is no process N, or it ended meanwhile
)",
     R"(  pillion doctor -pid 4711
  pillion inject -pid 4711 && pillion record -pid 4711 -duration 20s
)"},
    {"doctor", "  pillion doctor [flags] [-pid N]\n",
     "say what can be profiled and injected into, and what is missing",
     R"(Looks at process N, or at every process that uses CUDA, and touches none; what pillion itself may do comes first. Each
line is a subject, what was found, and `ok`, `degraded` or `missing`, with what to do about it. The last line of a
process is the verdict: whether profiles can be taken of it, or `pillion inject` would work, or why it would be refused.
)",
     "",
     R"(  0  of each process profiles can be taken, or inject would work
  1  an internal error
  2  wrong usage
  3  no process that uses CUDA or has the shim was seen
  4  of a process no profile can be had as things stand
  5  there is no process N
)",
     R"(  pillion doctor
  pillion doctor -pid 4711 -format json
)"},
    {"install", "  pillion install [flags] DIR\n",
     "copy the shim and CUPTI to where a workload can load them",
     R"(For an init container: copies libpillion.so and cupti/VERSION/ from beside this program to DIR, which the workload has
mounted as well. Each file comes whole or not at all. Run again it brings another version; programs that run keep
theirs. Prints the variable to start the workload with.
)",
     "  DIR  a folder that is there; files in it are replaced\n",
     R"(  0  copied
  1  a file cannot be read or written
  2  wrong usage
)",
     R"(  pillion install /opt/pillion
  CUDA_INJECTION64_PATH=/opt/pillion/libpillion.so your-program
)"},
    {"probe", "  pillion probe [flags] live|ready\n", "ask a running pillion; exit code 0 means yes",
     R"(For probes of a container without curl: asks `pillion serve` on this machine for /healthz or /readyz. It has to be told
the -listen and -token-file that serve has.
)",
     R"(  live   whether its threads run
  ready  whether a shim is attached
)",
     R"(  0  yes
  1  not live, or nobody answers
  2  wrong usage
  3  not ready
)",
     R"(  pillion probe ready
  pillion probe -url http://localhost:7070 live
  pillion probe -listen unix:/run/pillion/http.sock -token-file /etc/pillion/token live
)"},
};

const Page* find_page(std::string_view command) {
  for (const auto& page : kPages) {
    if (command == page.command) return &page;
  }
  return nullptr;
}

// Breaks lines of flags and variables, which are as long as their text, at blanks.
std::string wrapped(const std::string& body) {
  constexpr std::size_t kWidth = 118;
  constexpr std::size_t kIndent = 8;
  std::string text;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (line.size() > kWidth) {
      const std::size_t blank = line.rfind(' ', kWidth);
      if (blank == std::string::npos || blank <= kIndent) break;  // one long word
      text += line.substr(0, blank) + '\n';
      line.replace(0, blank + 1, kIndent, ' ');
    }
    text += line + '\n';
  }
  return text;
}

void add_section(std::string& text, const char* title, const std::string& body) {
  if (!body.empty()) text += std::string("\n") + title + ":\n" + body;
}

}  // namespace

std::string overview() {
  std::string text = "pillion: a GPU profiler that rides along in a pod\n\nusage:\n";
  constexpr std::size_t kColumn = 44;
  for (const auto& page : kPages) {
    for (std::string_view forms = page.usage; !forms.empty();) {
      const std::size_t end = forms.find('\n');
      std::string form(forms.substr(0, end));
      forms.remove_prefix(end + 1);
      if (form.size() < kColumn) form.append(kColumn - form.size(), ' ');
      text += form + "  " + page.what + '\n';
    }
  }
  text +=
      R"(  pillion help [COMMAND]                      this, or all about a command; also `pillion COMMAND -help`
  pillion version                             of the program and of the wire to the shims

To begin with: `pillion record -- your-program` profiles a program from its start, `pillion doctor` says what can be
done about programs that run.

The shim is libpillion.so, the part that works inside a program. CUDA_INJECTION64_PATH in the program's environment,
`record -- COMMAND`, `inject` and `serve -inject` bring it there. It sleeps until a profile is asked for.

Flags are written -name value, -name=value or with two dashes; durations 500ms, 20s, 2m, 1h; sizes in bytes or 64KiB,
512MiB, 1GiB. A flag's default is taken by every command; what else cannot apply is refused.
Exit codes: 0 done, 1 internal error, 2 usage, 3 no shim, 4 refused, 5 target gone; of `record -- COMMAND` the command's.
)";
  return text;
}

std::string manual_page(std::string_view command, ModeSet modes) {
  const auto* page = find_page(command);
  if (page == nullptr) return {};
  std::string text = std::string("pillion ") + page->command + ": " + page->what + "\n\nusage:\n" +
                     page->usage + "\n" + page->text;
  add_section(text, "arguments", page->arguments);
  add_section(text, "flags", wrapped(flags_help(modes)));
  add_section(text, "environment", wrapped(variables_help(modes)));
  add_section(text, "exit codes", page->exits);
  add_section(text, "example", page->example);
  return text;
}

}  // namespace pillion
