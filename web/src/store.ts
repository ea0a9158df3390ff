// SPDX-License-Identifier: Apache-2.0
// The profiles that the page holds, and what is asked of them. Runs in the worker; knows neither DOM nor messages.
import {toFolded} from './folded';
import {NameTable} from './names';
import {toPprof} from './pprof';
import type {Profile} from './profile';
import {parseProfile, summarize, type Summary} from './summary';
import {addStacks, StackTree, weightsOf, type TreeShape} from './tree';
import {makeView, type View, type ViewRequest} from './view';

export interface FlameRequest extends ViewRequest, TreeShape {
  profile: string;
  before: string | null;  // comparing: what it is compared with
  value: string;
  all: string;            // name of the root
}

export interface FlameAnswer extends View { ms: number }

export type ExportFormat = 'json' | 'pprof' | 'folded';

interface Built { key: string; tree: StackTree; ends: Int32Array[] }

export class Store {
  private readonly profiles = new Map<string, Profile>();
  private readonly asSent = new Map<string, Blob>();
  private readonly table = new NameTable();
  private built: Built[] = [];  // the newest first

  load(key: string, data: ArrayBuffer): Summary {
    const start = performance.now();
    const profile = parseProfile(new TextDecoder().decode(data));
    this.profiles.set(key, profile);
    this.asSent.set(key, new Blob([data], {type: 'application/json'}));
    return summarize(profile, performance.now() - start, data.byteLength);
  }

  drop(key: string): void {
    this.profiles.delete(key);
    this.asSent.delete(key);
    this.built = this.built.filter((one) => !one.key.split('\0').includes(key));
  }

  flame(request: FlameRequest): FlameAnswer {
    const start = performance.now();
    const profiles = [request.profile, ...(request.before ? [request.before] : [])];
    const {tree, ends} = this.treeOf(profiles, request);
    const profile = this.get(request.profile);
    const after = tree.totals(ends[0]!, weightsOf(profile, request.value));
    let before: Float64Array | null = null;
    if (request.before) {
      const other = this.get(request.before);
      before = tree.totals(ends[1]!, weightsOf(other, request.value));
      const scale = other.window.duration_ns > 0 ? profile.window.duration_ns / other.window.duration_ns : 1;
      if (scale !== 1) for (let i = 0; i < before.length; i++) before[i]! *= scale;
    }
    const focus = request.focus < tree.size ? request.focus : 0;
    const view = makeView(tree, this.table, {after, before}, {...request, focus}, request.all);
    return {...view, ms: performance.now() - start};
  }

  save(key: string, format: ExportFormat, value: string): Blob {
    const profile = this.get(key);
    if (format === 'json') return this.asSent.get(key)!;
    if (format === 'folded') return new Blob([toFolded(profile, value)], {type: 'text/plain'});
    return new Blob([toPprof(profile) as Uint8Array<ArrayBuffer>], {type: 'application/octet-stream'});
  }

  private get(key: string): Profile {
    const profile = this.profiles.get(key);
    if (!profile) throw new Error('This window is no longer in the page.');
    return profile;
  }

  // Building is what takes long; of the shapes and pairs that were looked at, the last ones are kept.
  private treeOf(profiles: string[], shape: TreeShape): Built {
    const key = [...profiles, shape.reverse, shape.lines, shape.group].join('\0');
    let found = this.built.find((one) => one.key === key);
    if (!found) {
      const tree = new StackTree();
      found = {key, tree, ends: profiles.map((profile) => addStacks(tree, this.get(profile), this.table, shape))};
    }
    this.built = [found, ...this.built.filter((one) => one !== found)].slice(0, 4);
    return found;
  }
}
