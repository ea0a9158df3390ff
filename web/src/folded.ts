// SPDX-License-Identifier: Apache-2.0
// The profile in the form that flamegraph.pl and speedscope read: as the server's format=folded.
import {shownName} from './names';
import type {Profile} from './profile';

export function toFolded(profile: Profile, value: string): string {
  const sums = new Map<string, number>();
  const several = profile.processes.length > 1;
  const clean = (name: string) => name.replaceAll(';', ':');
  for (const stack of profile.stacks) {
    const weight = stack[value] as number;
    if (!weight) continue;
    const names: string[] = several ? [clean(`${stack.labels.process ?? 'process'} (${stack.labels.pid ?? ''})`)] : [];
    for (const number of [...stack.frames].reverse()) {
      const frame = profile.frames[number]!;
      for (const line of [...frame.lines].reverse()) names.push(clean(frame.python ? shownName(frame, line, true) : line.function || '?'));
    }
    const key = names.join(';');
    sums.set(key, (sums.get(key) ?? 0) + weight);
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([key, sum]) => `${key} ${sum}\n`).join('');
}
