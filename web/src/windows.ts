// SPDX-License-Identifier: Apache-2.0
// The windows that the page holds: each was recorded at one time and has a profile of every type that was asked for.
import type {Summary} from './summary';
import {clock, duration} from './format';

export interface Words { title: string; text: string; hint: string }
export interface Part { key: string; summary: Summary }
export interface ProfileWindow {
  id: number;
  title: string;      // what of: processes, or the file's name
  parts: Part[];
  failed: {type: string; words: Words}[];
}

const kKept = 8;

export class Windows {
  all: ProfileWindow[] = [];  // the oldest first
  current: ProfileWindow | null = null;
  before: ProfileWindow | null = null;  // what current is compared with
  private next = 1;

  // The parts of windows that had to leave, so that the worker forgets them as well.
  add(title: string, parts: Part[], failed: ProfileWindow['failed']): Part[] {
    this.current = {id: this.next++, title, parts, failed};
    this.all.push(this.current);
    this.before = null;
    return this.all.splice(0, Math.max(0, this.all.length - kKept)).flatMap((window) => window.parts);
  }

  remove(window: ProfileWindow): Part[] {
    this.all = this.all.filter((one) => one !== window);
    if (this.before === window) this.before = null;
    if (this.current === window) {
      this.current = this.all[this.all.length - 1] ?? null;
      if (this.before === this.current) this.before = null;
    }
    return window.parts;
  }

  show(window: ProfileWindow): void {
    this.current = window;
    if (this.before === window) this.before = null;
  }

  // What the current window can be compared with: others that have a type of its in common.
  comparable(): ProfileWindow[] {
    const types = new Set(this.current?.parts.map((part) => part.summary.type));
    return this.all.filter((one) => one !== this.current && one.parts.some((part) => types.has(part.summary.type)));
  }

  partBefore(type: string): Part | undefined {
    return this.before?.parts.find((part) => part.summary.type === type);
  }
}

export function describeWindow(window: ProfileWindow): string {
  const first = window.parts[0]?.summary;
  if (!first) return `#${window.id}`;
  return `#${window.id} ${window.title}, ${duration(first.durationNs)} at ${clock(first.startUnixNs)}`;
}

export function titleOf(summary: Summary): string {
  const names = [...new Set(summary.processes.map((process) => process.comm))];
  if (names.length === 0) return 'no process';
  return names.length > 2 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} more` : names.join(', ');
}
