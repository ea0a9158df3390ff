// SPDX-License-Identifier: Apache-2.0
// Stacks merged into a tree, in flat arrays: a million stacks make no million objects.
import {FrameNames, type NameTable} from './names';
import type {Profile, Stack} from './profile';

export type Group = 'none' | 'process' | 'thread' | 'device' | 'stream';
export interface TreeShape { reverse: boolean; lines: boolean; group: Group }

const kRoot = 0;

export class StackTree {
  parent = new Int32Array(1024);
  name = new Int32Array(1024);
  firstChild = new Int32Array(1024).fill(-1);
  nextSibling = new Int32Array(1024).fill(-1);
  size = 1;  // the root, whose name is not used
  private slots = new Int32Array(4096).fill(-1);  // hash of (parent, name) -> node

  constructor() { this.parent[kRoot] = -1; this.name[kRoot] = -1; }

  // The node below `parent` with this name, made where there is none.
  child(parent: number, name: number): number {
    let mask = this.slots.length - 1;
    let at = hash(parent, name) & mask;
    for (let node = this.slots[at]!; node !== -1; node = this.slots[at]!) {
      if (this.parent[node] === parent && this.name[node] === name) return node;
      at = (at + 1) & mask;
    }
    if (this.size === this.parent.length) this.grow();
    const node = this.size++;
    this.parent[node] = parent;
    this.name[node] = name;
    this.nextSibling[node] = this.firstChild[parent]!;
    this.firstChild[parent] = node;
    this.slots[at] = node;
    if (this.size * 2 > this.slots.length) this.rehash();
    return node;
  }

  // Sums over each node's stacks: weights[i] belongs to the stack that ends at ends[i].
  totals(ends: Int32Array, weights: Float64Array): Float64Array {
    const sums = new Float64Array(this.size);
    for (let i = 0; i < ends.length; i++) sums[ends[i]!]! += weights[i]!;
    // A child is made after its parent.
    for (let node = this.size - 1; node > 0; node--) sums[this.parent[node]!]! += sums[node]!;
    return sums;
  }

  pathTo(node: number): number[] {
    const path: number[] = [];
    for (let at = node; at > kRoot; at = this.parent[at]!) path.push(at);
    return path.reverse();
  }

  private grow(): void {
    const bigger = (old: Int32Array, fill: number) => {
      const made = new Int32Array(old.length * 2).fill(fill, old.length);
      made.set(old);
      return made;
    };
    this.parent = bigger(this.parent, 0);
    this.name = bigger(this.name, 0);
    this.firstChild = bigger(this.firstChild, -1);
    this.nextSibling = bigger(this.nextSibling, -1);
  }

  private rehash(): void {
    const slots = new Int32Array(this.slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    for (let node = 1; node < this.size; node++) {
      let at = hash(this.parent[node]!, this.name[node]!) & mask;
      while (slots[at] !== -1) at = (at + 1) & mask;
      slots[at] = node;
    }
    this.slots = slots;
  }
}

function hash(parent: number, name: number): number {
  let h = Math.imul(parent, 0x9e3779b1) ^ Math.imul(name, 0x85ebca6b);
  h ^= h >>> 15;
  h = Math.imul(h, 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}

export function groupName(stack: Stack, group: Group): string {
  const labels = stack.labels;
  const process = `${labels.process ?? 'process'} (${labels.pid ?? '?'})`;
  switch (group) {
    case 'process': return process;
    case 'thread': return `thread ${labels.thread ?? '?'}${labels.thread_name ? ` ${labels.thread_name}` : ''}, ${process}`;
    case 'device': return labels.device === undefined ? 'no device' : `device ${labels.device}, ${process}`;
    case 'stream': return labels.stream === undefined ? 'no stream' : `stream ${labels.stream}, device ${labels.device ?? '?'}, ${process}`;
    default: return '';
  }
}

// Adds the profile's stacks; the answer says at which node each of them ends.
export function addStacks(tree: StackTree, profile: Profile, table: NameTable, shape: TreeShape): Int32Array {
  const names = new FrameNames(profile, table, shape.lines);
  const ends = new Int32Array(profile.stacks.length);
  profile.stacks.forEach((stack, index) => {
    let node = kRoot;
    if (shape.group !== 'none') node = tree.child(node, table.add(groupName(stack, shape.group), 'group'));
    const frames = stack.frames;
    if (shape.reverse) {
      for (let i = 0; i < frames.length; i++) {
        const ids = names.of(frames[i]!, i === 0);
        for (let k = ids.length - 1; k >= 0; k--) node = tree.child(node, ids[k]!);
      }
    } else {
      for (let i = frames.length - 1; i >= 0; i--) {
        const ids = names.of(frames[i]!, i === 0);
        for (let k = 0; k < ids.length; k++) node = tree.child(node, ids[k]!);
      }
    }
    ends[index] = node;
  });
  return ends;
}

export function weightsOf(profile: Profile, value: string): Float64Array {
  return Float64Array.from(profile.stacks, (stack) => (stack[value] as number | undefined) ?? 0);
}
