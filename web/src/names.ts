// SPDX-License-Identifier: Apache-2.0
// Frames to names: each function of a location is one box of a flame graph, with a kind that gives its colour.
import {fileName} from './format';
import type {Frame, Line, Profile} from './profile';

export type Kind = 'group' | 'python' | 'native' | 'api' | 'gpu' | 'copy' | 'os' | 'note' |
  'idle-host' | 'idle-queued' | 'idle-sync' | 'idle-copy' | 'idle-unknown';

const kIdle: Record<string, Kind> = {
  'idle: host-bound': 'idle-host', 'idle: queued': 'idle-queued', 'idle: synchronising': 'idle-sync',
  'idle: copy': 'idle-copy',
};

// `leaf`: it stands first in a stack of a profile of GPU work.
export function kindOf(frame: Frame, name: string, mapping: string, leaf: boolean): Kind {
  if (frame.python) return 'python';
  if (name.startsWith('idle: ')) return kIdle[name] ?? 'idle-unknown';
  if (name.startsWith('[')) return leaf && /^\[mem(cpy|set)/.test(name) ? 'copy' : 'note';
  if (leaf) return 'gpu';
  if (/^\[?kernel/.test(mapping) || mapping === '[vmlinux]') return 'os';
  if (frame.mapping === undefined && /^cu[A-Z]/.test(name)) return 'api';
  return 'native';
}

export function shownName(frame: Frame, line: Line, lines: boolean): string {
  const number = lines && line.line ? `:${line.line}` : '';
  const file = line.file ? fileName(line.file) : '';
  // A qualified name alone does not say which file's <module> it is.
  if (frame.python) return file ? `${line.function} (${file}${number})` : line.function;
  return number && file ? `${line.function} (${file}${number})` : line.function || '?';
}

// Names by number, over all profiles, so that stacks of two windows can be laid over each other.
export class NameTable {
  readonly names: string[] = [];
  readonly kinds: Kind[] = [];
  readonly places: string[] = [];  // where it comes from: source file, or the mapped file
  private readonly ids = new Map<string, number>();

  add(name: string, kind: Kind, place = ''): number {
    const key = `${kind}\0${name}`;
    const found = this.ids.get(key);
    if (found !== undefined) return found;
    const id = this.names.push(name) - 1;
    this.kinds.push(kind);
    this.places.push(place);
    this.ids.set(key, id);
    return id;
  }
}

// For each frame of the profile its names, outermost first; once as a leaf and once as any other frame.
export class FrameNames {
  private readonly inner: (Int32Array | undefined)[];
  private readonly leaf: (Int32Array | undefined)[];
  private readonly gpu: boolean;

  constructor(private readonly profile: Profile, private readonly table: NameTable, private readonly lines: boolean) {
    this.inner = new Array<Int32Array | undefined>(profile.frames.length);
    this.leaf = new Array<Int32Array | undefined>(profile.frames.length);
    this.gpu = profile.type === 'gpu';
  }

  of(frame: number, isLeaf: boolean): Int32Array {
    const leaf = isLeaf && this.gpu;
    const cache = leaf ? this.leaf : this.inner;
    return (cache[frame] ??= this.make(frame, leaf));
  }

  private make(number: number, leaf: boolean): Int32Array {
    const frame = this.profile.frames[number]!;
    const mapping = frame.mapping === undefined ? '' : this.profile.mappings[frame.mapping]?.file ?? '';
    const ids = frame.lines.map((line) =>
      this.table.add(shownName(frame, line, this.lines), kindOf(frame, line.function, mapping, leaf), line.file || mapping));
    return Int32Array.from(ids.reverse());
  }
}
