// SPDX-License-Identifier: Apache-2.0
// What the page's tables show of a profile: small, while the stacks stay in the worker.
import {fileName} from './format';
import type {Device, DeviceIdle, Frame, Kernel, Latency, Process, Profile, Quality, Stack} from './profile';
import {valuesOf, type Value} from './values';

export interface Site { name: string; place: string; caller: string }  // caller: name and place of who called it
export interface KernelRow { kernel: Kernel; site: Site | null; sites: number }
export interface GapRow { device: string; cause: string; time: number; gaps: number; site: Site | null; siteShare: number }

export interface Summary {
  type: string;
  startUnixNs: number;
  durationNs: number;
  processes: Process[];
  devices: Device[];
  deviceIdle: DeviceIdle[];
  quality: Quality;
  values: (Value & {total: number})[];
  kernels: KernelRow[];
  gaps: GapRow[];
  latencies: Latency[];
  stacks: number;
  parseMs: number;
  bytes: number;
}

// Who called: the innermost Python frame, else the innermost one that is no CUDA's or Pillion's.
const kDriver = /\/lib(cuda|cudart|cupti|nvrtc|pillion)[^/]*\.so/;

export function siteOf(profile: Profile, stack: Stack): Site | null {
  const native: Frame[] = [];
  const python: Frame[] = [];
  for (let i = 1; i < stack.frames.length && python.length < 2; i++) {
    const frame = profile.frames[stack.frames[i]!]!;
    if (frame.python) python.push(frame);
    else if (frame.mapping !== undefined && native.length < 2 && !kDriver.test(profile.mappings[frame.mapping]?.file ?? '')) native.push(frame);
  }
  const [site, caller] = python.length > 0 ? python : native;
  if (!site) return null;
  const placeOf = (frame: Frame) => {
    const {file, line} = frame.lines[0]!;
    if (file) return fileName(file) + (line ? `:${line}` : '');
    return frame.mapping === undefined ? '' : fileName(profile.mappings[frame.mapping]!.file);
  };
  return {name: site.lines[0]!.function, place: placeOf(site), caller: caller ? `${caller.lines[0]!.function} ${placeOf(caller)}` : ''};
}

const siteKey = (site: Site) => `${site.name}\0${site.place}\0${site.caller}`;

// For each key the site with most of the value, and how many sites there are.
class SiteCount {
  private readonly sums = new Map<string, Map<string, {site: Site; sum: number}>>();

  add(key: string, site: Site | null, value: number): void {
    if (!site) return;
    const sites = this.sums.get(key) ?? new Map<string, {site: Site; sum: number}>();
    this.sums.set(key, sites);
    const entry = sites.get(siteKey(site));
    if (entry) entry.sum += value;
    else sites.set(siteKey(site), {site, sum: value});
  }

  heaviest(key: string): {site: Site | null; sum: number; sites: number} {
    const sites = [...(this.sums.get(key)?.values() ?? [])];
    const first = sites.reduce<{site: Site; sum: number} | null>((best, one) => (!best || one.sum > best.sum ? one : best), null);
    return {site: first?.site ?? null, sum: first?.sum ?? 0, sites: sites.length};
  }
}

function kernelRows(profile: Profile, value: string): KernelRow[] {
  const sites = new SiteCount();
  for (const stack of profile.stacks) {
    const leaf = profile.frames[stack.frames[0]!]!.lines[0]!.function;
    sites.add(leaf, siteOf(profile, stack), (stack[value] as number) || 0);
  }
  return profile.kernels.map((kernel) => {
    const {site, sites: count} = sites.heaviest(kernel.name);
    return {kernel, site, sites: count};
  });
}

export function deviceKey(labels: {gpu_uuid?: unknown; pid?: unknown; device?: unknown}): string {
  return labels.gpu_uuid ? String(labels.gpu_uuid) : `${labels.pid}/${labels.device}`;
}

function gapRows(profile: Profile): GapRow[] {
  const sites = new SiteCount();
  const rows = new Map<string, GapRow>();
  for (const stack of profile.stacks) {
    const {labels} = stack;
    const [device, cause, time] = [deviceKey(labels), String(labels.cause ?? 'unknown'), (stack.gpu_idle_ns as number) || 0];
    const key = `${device}\0${cause}`;
    const row = rows.get(key) ?? {device, cause, time: 0, gaps: 0, site: null, siteShare: 0};
    rows.set(key, row);
    row.time += time;
    row.gaps += (stack.gaps as number) || 0;
    sites.add(key, siteOf(profile, stack), time);
  }
  for (const [key, row] of rows) {
    const {site, sum} = sites.heaviest(key);
    row.site = site;
    row.siteShare = row.time > 0 ? sum / row.time : 0;
  }
  return [...rows.values()].sort((a, b) => b.time - a.time);
}

export function summarize(profile: Profile, parseMs: number, bytes: number): Summary {
  const values = valuesOf(profile.stacks[0] ?? profile.kernels[0]);
  const total = (key: string) => profile.stacks.reduce((sum, stack) => sum + ((stack[key] as number) || 0), 0);
  return {
    type: profile.type,
    startUnixNs: profile.window.start_unix_ns,
    durationNs: profile.window.duration_ns,
    processes: profile.processes, devices: profile.devices, deviceIdle: profile.device_idle ?? [],
    quality: profile.quality,
    values: values.map((value) => ({...value, total: total(value.key)})),
    kernels: kernelRows(profile, values[0]?.key ?? ''),
    gaps: profile.type === 'idle' ? gapRows(profile) : [],
    latencies: profile.latencies,
    stacks: profile.stacks.length, parseMs, bytes,
  };
}

// Throws, in words for a person, when it is no profile of Pillion's.
export function parseProfile(text: string): Profile {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error('This is not JSON. A profile comes from /profile?format=json, or from Save as JSON on this page.');
  }
  const profile = parsed as Partial<Profile>;
  if (profile?.schema !== 'pillion-profile-1') {
    throw new Error(`This is no profile of Pillion's: its "schema" is ${JSON.stringify(profile?.schema ?? null)}, not "pillion-profile-1".`);
  }
  const lists = ['processes', 'devices', 'kernels', 'latencies', 'mappings', 'frames', 'stacks'] as const;
  const missing = lists.find((name) => !Array.isArray(profile[name]));
  if (missing || !profile.window || !profile.quality) throw new Error(`This profile is not whole: "${missing ?? 'window'}" is missing.`);
  return profile as Profile;
}
