// SPDX-License-Identifier: Apache-2.0
// A profile with as many stacks as wanted, all different, as a program with many paths would give: made the same way
// each time.
import {createWriteStream} from 'node:fs';
import {once} from 'node:events';

export interface Large { stacks: number; depth: number; functions: number; kernels: number }

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function head(large: Large): Record<string, unknown> {
  const line = (name: string, file: string, number: number) => ({lines: [{function: name, file, line: number}]});
  const frames = [
    ...Array.from({length: large.kernels}, (_, i) => ({lines: [{function: `kernel_${i}(float*, int)`, system_name: `_Z8kernel_${i}Pfi`}]})),
    {lines: [{function: 'cuLaunchKernel'}]},
    ...Array.from({length: large.functions}, (_, i) => (i % 3 === 0
      ? {...line(`Module${i % 40}.method_${i}`, `/app/model/module_${i % 40}.py`, 10 + (i % 400)), python: true}
      : {...line(`at::native::operation_${i}(at::Tensor const&)`, `aten/src/operation_${i % 90}.cpp`, 100 + (i % 900)), mapping: i % 2, address: 4096 + i})),
  ];
  return {
    schema: 'pillion-profile-1', type: 'gpu', window: {start_unix_ns: 1.75e18, start_monotonic_ns: 1e12, duration_ns: 60e9},
    processes: [{pid: 42, comm: 'trainer', exe: '/usr/bin/python3', targets: [1]}], devices: [], settings: [],
    quality: {launches: large.stacks, executions: large.stacks, joined: large.stacks, anomalies: []},
    kernels: Array.from({length: large.kernels}, (_, i) => ({name: `kernel_${i}(float*, int)`, system_name: `_Z8kernel_${i}Pfi`,
      gpu_time_ns: 1e9 / (i + 1), launches: 1000, queue_time_ns: 5e6, copied_bytes: 0, launch_time_ns: 1e6})),
    latencies: [], mappings: [{file: '/usr/bin/python3', build_id: ''}, {file: '/app/libtorch.so', build_id: ''}], frames,
  };
}

// Neighbours share most of their callers, as they do in a program.
export function* stacksOf(large: Large): Generator<string> {
  const next = random(7);
  const first = large.kernels + 1;
  const path: number[] = [];
  for (let i = 0; i < large.stacks; i++) {
    const keep = Math.min(path.length, Math.floor(large.depth * (1 - next() * next())));
    path.length = keep;
    while (path.length < large.depth) path.push(first + Math.floor(next() * next() * large.functions));
    const kernel = Math.floor(next() * next() * large.kernels);
    const launches = 1 + Math.floor(next() * 5);
    const frames = [kernel, large.kernels, ...[...path].reverse()];
    yield `{"frames":[${frames.join(',')}],"labels":{"process":"trainer","pid":42,"device":0,"context":1,"stream":${i % 4},"thread":${42 + (i % 8)},"attribution":"exact"},` +
      `"gpu_time_ns":${launches * (2000 + Math.floor(next() * 40000))},"launches":${launches},"queue_time_ns":${launches * 4000},"copied_bytes":0,"launch_time_ns":${launches * 1500}}`;
  }
}

export async function writeLarge(path: string, large: Large): Promise<void> {
  const file = createWriteStream(path);
  const open = JSON.stringify(head(large));
  file.write(`${open.slice(0, -1)},"stacks":[`);
  let piece: string[] = [];
  let written = 0;
  for (const stack of stacksOf(large)) {
    piece.push(stack);
    if (piece.length === 5000) {
      if (!file.write((written ? ',' : '') + piece.join(','))) await once(file, 'drain');
      written += piece.length;
      piece = [];
    }
  }
  if (piece.length > 0) file.write((written ? ',' : '') + piece.join(','));
  file.end(']}');
  await once(file, 'finish');
}
