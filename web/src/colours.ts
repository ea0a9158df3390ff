// SPDX-License-Identifier: Apache-2.0
// Fills of the flame graph, as CSS values: the theme's variables make them light or dark.
import type {Kind} from './names';
import type {ViewNode} from './view';

export const kKindNames: Record<Kind, string> = {
  'python': 'Python', 'native': 'Native', 'api': 'CUDA call', 'gpu': 'GPU kernel', 'copy': 'Copy or set', 'os': 'Operating system',
  'idle-host': 'Idle: host-bound', 'idle-queued': 'Idle: queued', 'idle-sync': 'Idle: synchronising', 'idle-copy': 'Idle: copy',
  'idle-unknown': 'Idle: unknown', 'group': 'Group', 'note': 'Note',
};

export const kCauseKinds: Record<string, Kind> = {
  'host-bound': 'idle-host', 'queued': 'idle-queued', 'synchronising': 'idle-sync', 'copy': 'idle-copy', 'unknown': 'idle-unknown',
};

export const kCauseWords: Record<string, string> = {
  'host-bound': 'what ran next had not been launched yet: the program was busy elsewhere',
  'queued': 'it had been launched, and waited for a dependency or the launch path',
  'synchronising': 'its launch was late because its thread had waited for the GPU',
  'copy': 'a copy was in flight and nothing else',
  'unknown': 'when what ran next was launched is not known',
};

// Neighbours of one kind differ a little, and a name has the same shade everywhere.
export function shade(name: string): number {
  let hash = 0;
  for (let i = 0; i < Math.min(name.length, 32); i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return Math.abs(hash) % 4;
}

export function kindFill(kind: Kind, name: string): string {
  return `hsl(var(--c-${kind}) var(--shade-${shade(name)}))`;
}

// -1: gone, 0: the same, 1: new.
export function change(node: {before?: number; after: number}): number {
  const before = node.before ?? 0;
  const larger = Math.max(before, node.after);
  return larger > 0 ? (node.after - before) / larger : 0;
}

export function changeFill(node: ViewNode): string {
  const by = change(node);
  const strength = Math.round(Math.min(1, Math.abs(by) * 1.5) * 100);  // full from two thirds on
  if (strength < 3) return 'var(--same)';
  return `color-mix(in oklab, var(${by > 0 ? '--more' : '--less'}) ${strength}%, var(--same))`;
}
