// SPDX-License-Identifier: Apache-2.0
#include "http/pages.h"

namespace pillion::http {

std::string_view home_page() {
  return R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>pillion</title></head><body>
<h1>pillion</h1>
<p>GPU profiles of the processes beside it.</p>
<ul>
<li><a href="/profile?seconds=5">/profile?seconds=5</a>: pprof, every kernel under the stack that launched it;
 also <code>format=json</code> or <code>folded</code>, <code>pid=</code>, <code>device=</code>, <code>kinds=</code></li>
<li><a href="/profile?seconds=5&amp;type=idle">/profile?seconds=5&amp;type=idle</a>: why the GPUs had nothing to do, under
 the launch that ended it</li>
<li><a href="/profile?seconds=5&amp;type=sync">/profile?seconds=5&amp;type=sync</a>: the calls that waited for a GPU</li>
<li><a href="/debug/pprof/">/debug/pprof/</a>: the same for <code>go tool pprof</code></li>
<li><a href="/status">/status</a>: what is attached, what is missing</li>
<li><a href="/metrics">/metrics</a>: Prometheus</li>
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>: alive; a shim is attached</li>
</ul>
</body></html>
)";
}

std::string_view pprof_index_page() {
  return R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>/debug/pprof/</title></head><body>
<h1>/debug/pprof/</h1>
<ul>
<li><a href="/debug/pprof/gpu?seconds=5">gpu</a>: GPU time, launches, queue time, copied bytes, launch time</li>
<li><a href="/debug/pprof/idle?seconds=5">idle</a>: why the GPUs had nothing to do</li>
<li><a href="/debug/pprof/sync?seconds=5">sync</a>: calls that waited for a GPU</li>
<li><a href="/debug/pprof/cmdline">cmdline</a>: command line of pillion</li>
</ul>
<p>Not in this build: profile (CPU), heap, allocs.</p>
</body></html>
)";
}

}  // namespace pillion::http
