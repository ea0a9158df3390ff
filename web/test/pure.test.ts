// SPDX-License-Identifier: Apache-2.0
// The parts without a page: numbers, names, trees, views, summaries, what is saved.
import assert from 'node:assert/strict';
import {gunzipSync, gzipSync} from 'node:zlib';
import test from 'node:test';

import advice from 'pillion:advice';
import {Profile as Pprof} from 'pprof-format';

import {change, changeFill} from '../src/colours';
import {toFolded} from '../src/folded';
import {bytes, duration, percent, signed} from '../src/format';
import {power} from '../src/latencies';
import {kindOf} from '../src/names';
import {toPprof} from '../src/pprof';
import type {Profile} from '../src/profile';
import {profileUrl, ServerError, wordsOf} from '../src/server';
import {Store} from '../src/store';
import {parseProfile, siteOf, summarize} from '../src/summary';
import {describe} from '../src/values';
import type {ViewNode} from '../src/view';
import {matcher} from '../src/view';
import {Windows, type Part} from '../src/windows';
import {head, stacksOf} from './large_profile';

// main (C) -> train (Python) -> forward | backward -> cuLaunchKernel -> kernels
function sample(): Profile {
  const stack = (frames: number[], gpu: number, launches: number, more: Record<string, string | number> = {}) =>
    ({frames, labels: {process: 'python3', pid: 7, device: 0, stream: 13, ...more}, gpu_time_ns: gpu, launches, queue_time_ns: 10, copied_bytes: 0, launch_time_ns: 5});
  return {
    schema: 'pillion-profile-1', type: 'gpu', window: {start_unix_ns: 1.7e18, start_monotonic_ns: 5, duration_ns: 2e9},
    processes: [{pid: 7, comm: 'python3', exe: '/usr/bin/python3'}], devices: [], settings: [],
    quality: {launches: 6, executions: 6, joined: 6, anomalies: [{kind: 'cupti_dropped', total: 3, meaning: 'lost'}]},
    kernels: [{name: 'conv(float*)', system_name: '_Z4convPf', gpu_time_ns: 700, launches: 4}, {name: '[memcpy HtoD]', system_name: '', gpu_time_ns: 300, launches: 2}],
    latencies: [], mappings: [{file: '/usr/bin/python3', build_id: 'ab'}, {file: '/usr/lib/libcudart.so.13', build_id: ''}],
    frames: [
      {lines: [{function: 'conv(float*)', system_name: '_Z4convPf'}]},
      {lines: [{function: '[memcpy HtoD]'}]},
      {lines: [{function: 'cuLaunchKernel'}]},
      {lines: [{function: 'inlined', file: 'a.cc', line: 3}, {function: 'call_function', file: 'a.cc', line: 9}], mapping: 0, address: 4096},
      {lines: [{function: 'Model.forward', file: '/app/model.py', line: 12}], python: true},
      {lines: [{function: 'Model.backward', file: '/app/model.py', line: 30}], python: true},
      {lines: [{function: 'train', file: '/app/train.py', line: 5}], python: true},
      {lines: [{function: 'main'}], mapping: 0, address: 8192},
      {lines: [{function: 'cudaLaunchKernel'}], mapping: 1, address: 100},
    ],
    stacks: [stack([0, 2, 8, 3, 4, 6, 7], 500, 2), stack([0, 2, 8, 3, 5, 6, 7], 200, 2, {stream: 14}), stack([1, 2, 8, 3, 4, 6, 7], 300, 2)],
  };
}

const encode = (profile: Profile) => new TextEncoder().encode(JSON.stringify(profile)).buffer as ArrayBuffer;

const flameRequest = {profile: 'a', before: null, value: 'gpu_time_ns', all: 'all', focus: 0, width: 1000, limit: 1000, least: 1,
  search: '', reverse: false, lines: false, group: 'none' as const};

function storeOf(...profiles: Profile[]): Store {
  const store = new Store();
  profiles.forEach((profile, index) => store.load('abc'[index]!, encode(profile)));
  return store;
}

const paths = (node: ViewNode, at = ''): string[] => {
  const here = at ? `${at};${node.name}` : node.name;
  return node.children ? node.children.flatMap((child) => paths(child, here)) : [`${here} ${node.value}`];
};

test('numbers are read by people', () => {
  assert.deepEqual([0, 999, 1500, 12_345_678, 3e9, 120e9].map(duration), ['0', '999 ns', '1.5 µs', '12.3 ms', '3 s', '2 min']);
  assert.deepEqual([0, 512, 1536, 3 * 2 ** 30].map(bytes), ['0', '512 B', '1.5 KiB', '3 GiB']);
  assert.deepEqual([0, 0.0004, 0.1234, 1].map(percent), ['0.0 %', '< 0.1 %', '12.3 %', '100.0 %']);
  assert.deepEqual([signed('3 ms', 3), signed('-3 ms', -3), signed('0', 0)], ['+3 ms', '−3 ms', '0']);
  assert.deepEqual([0, 1, 1024, 2 ** 40].map(power), [0, 0, 10, 40]);
});

test('values that the page does not know have a name and a unit', () => {
  assert.deepEqual(describe('cpu_time_ns'), {key: 'cpu_time_ns', unit: 'time', label: 'Cpu time'});
  assert.deepEqual(describe('live_bytes'), {key: 'live_bytes', unit: 'bytes', label: 'Live bytes'});
  assert.equal(describe('gpu_time_ns').label, 'GPU time');
});

test('frames have their kinds', () => {
  const frame = {lines: [{function: 'x'}]};
  const kinds = [kindOf({...frame, python: true}, 'f', '', false), kindOf(frame, 'conv', '', true), kindOf(frame, '[memcpy HtoD]', '', true),
    kindOf(frame, 'cuLaunchKernel', '', false), kindOf({...frame, mapping: 0}, 'main', '/bin/x', false), kindOf(frame, 'idle: queued', '', false),
    kindOf(frame, '[unsampled]', '', false), kindOf({...frame, mapping: 0}, 'do_futex', '[kernel.kallsyms]', false)];
  assert.deepEqual(kinds, ['python', 'gpu', 'copy', 'api', 'native', 'idle-queued', 'note', 'os']);
});

test('a flame graph has every stack once, inlined functions as boxes of their own', () => {
  const {root, total, boxes, folded} = storeOf(sample()).flame(flameRequest);
  const below = 'all;main;train (train.py)';
  const call = 'call_function;inlined;cudaLaunchKernel;cuLaunchKernel';
  assert.deepEqual(paths(root).sort(), [
    `${below};Model.backward (model.py);${call};conv(float*) 200`,
    `${below};Model.forward (model.py);${call};[memcpy HtoD] 300`,
    `${below};Model.forward (model.py);${call};conv(float*) 500`]);
  assert.deepEqual([total, boxes, folded], [1000, 16, 0]);
});

test('kernels first, lines and groups make other trees of the same stacks', () => {
  const store = storeOf(sample());
  const reversed = store.flame({...flameRequest, reverse: true}).root;
  assert.deepEqual(reversed.children!.map(({name, value}) => [name, value]), [['conv(float*)', 700], ['[memcpy HtoD]', 300]]);
  assert.equal(reversed.children![0]!.children![0]!.name, 'cuLaunchKernel');
  const lines = store.flame({...flameRequest, lines: true}).root;
  assert.equal(lines.children![0]!.children![0]!.name, 'train (train.py:5)');
  const streams = store.flame({...flameRequest, group: 'stream'}).root.children!;
  assert.deepEqual(streams.map(({name, value, kind}) => [name, value, kind]),
    [['stream 13, device 0, python3 (7)', 800, 'group'], ['stream 14, device 0, python3 (7)', 200, 'group']]);
});

test('zooming keeps the way to the focus, as wide as it', () => {
  const store = storeOf(sample());
  const backward = store.flame(flameRequest).root.children![0]!.children![0]!.children![1]!;
  assert.equal(backward.name, 'Model.backward (model.py)');
  const {root} = store.flame({...flameRequest, focus: backward.node});
  const chain = [root, root.children![0]!, root.children![0]!.children![0]!];
  assert.deepEqual(chain.map(({name, value, above}) => [name, value, above]), [['all', 200, true], ['main', 200, true], ['train (train.py)', 200, true]]);
  assert.deepEqual(chain.map(({after}) => after), [1000, 1000, 1000]);
  assert.equal(chain[2]!.children!.length, 1);
});

test('a search says how much it found, a match below a match once', () => {
  const store = storeOf(sample());
  assert.equal(store.flame({...flameRequest, search: 'FORWARD'}).matched, 0.8);
  assert.equal(store.flame({...flameRequest, search: '/^(train|Model)/'}).matched, 1);
  assert.equal(store.flame({...flameRequest, search: 'nobody'}).matched, 0);
  assert.equal(store.flame(flameRequest).matched, null);
  assert.throws(() => matcher('/(/'));
});

test('comparing scales to the length of the window and keeps what is gone', () => {
  const [after, before] = [sample(), sample()];
  before.window.duration_ns = 4e9;           // twice as long
  before.stacks[0]!.gpu_time_ns = 2000;      // 1000 of this window's time: was twice as much
  after.stacks.splice(1, 1);                 // backward is gone
  const {root} = storeOf(after, before).flame({...flameRequest, before: 'b', reverse: true});
  const conv = root.children!.find(({name}) => name === 'conv(float*)')!;
  assert.deepEqual([conv.after, conv.before, conv.value], [500, 1100, 800]);
  const names = paths(root).join('\n');
  assert.match(names, /Model.backward/);
  assert.equal(change({after: 0, before: 100}), -1);
  assert.equal(change({after: 100, before: 0}), 1);
  assert.equal(changeFill({...conv, after: 100, before: 100}), 'var(--same)');
  assert.match(changeFill(conv), /--less/);
});

test('what is too narrow is folded, and what was drawn stays below the limit', () => {
  const large = {stacks: 20_000, depth: 12, functions: 900, kernels: 50};
  const profile = {...head(large), stacks: [...stacksOf(large)].map((text) => JSON.parse(text))} as unknown as Profile;
  const store = storeOf(profile);
  const {root, boxes, folded, total} = store.flame({...flameRequest, limit: 800});
  assert.ok(boxes <= 2 * 800, `${boxes} boxes`);
  assert.ok(folded > 1000);
  assert.equal(total, profile.stacks.reduce((sum, stack) => sum + (stack.gpu_time_ns as number), 0));
  const inside = (node: ViewNode): void => {
    const sum = (node.children ?? []).reduce((all, child) => all + child.value, 0);
    assert.ok(sum <= node.value * (1 + 1e-9), `${node.name}: ${sum} > ${node.value}`);
    node.children?.forEach(inside);
  };
  inside(root);
});

test('a launch site is the innermost Python frame, else the innermost one that is no driver', () => {
  const profile = sample();
  assert.deepEqual(siteOf(profile, profile.stacks[0]!), {name: 'Model.forward', place: 'model.py:12', caller: 'train train.py:5'});
  const native = {...profile.stacks[0]!, frames: [0, 2, 8, 3, 7]};
  assert.deepEqual(siteOf(profile, native), {name: 'inlined', place: 'a.cc:3', caller: 'main python3'});
});

test('a summary has the totals, and for each kernel where it is launched most', () => {
  const summary = summarize(sample(), 1, 100);
  assert.deepEqual(summary.values.map(({key, total}) => [key, total]),
    [['gpu_time_ns', 1000], ['launches', 6], ['queue_time_ns', 30], ['copied_bytes', 0], ['launch_time_ns', 15]]);
  assert.deepEqual(summary.kernels.map(({kernel, site, sites}) => [kernel.name, site?.name, sites]),
    [['conv(float*)', 'Model.forward', 2], ['[memcpy HtoD]', 'Model.forward', 1]]);
});

test('idle gaps add up by device and cause', () => {
  const profile = sample();
  profile.type = 'idle';
  profile.stacks = profile.stacks.map((stack, index) => ({frames: stack.frames, labels: {...stack.labels, cause: index === 0 ? 'queued' : 'host-bound', gpu_uuid: 'GPU-1'}, gpu_idle_ns: 100 * (index + 1), gaps: 1}));
  assert.deepEqual(summarize(profile, 0, 0).gaps.map(({device, cause, time, gaps}) => [device, cause, time, gaps]),
    [['GPU-1', 'host-bound', 500, 2], ['GPU-1', 'queued', 100, 1]]);
});

test('what is no profile is refused in words', () => {
  assert.throws(() => parseProfile('<html>'), /not JSON/);
  assert.throws(() => parseProfile('null'), /"schema" is null/);
  assert.throws(() => parseProfile('{"schema":"pillion-profile-2"}'), /pillion-profile-2/);
  const {stacks, ...rest} = sample();
  assert.equal(stacks.length, 3);
  assert.throws(() => parseProfile(JSON.stringify(rest)), /"stacks" is missing/);
});

test('pprof has the same stacks, values, labels and anomalies', () => {
  const profile = sample();
  const decoded = Pprof.decode(gunzipSync(gzipSync(toPprof(profile))));
  const text = (index: number | bigint) => decoded.stringTable.strings[Number(index)];
  assert.deepEqual(decoded.sampleType.map(({type, unit}) => [text(type), text(unit)]),
    [['gpu_time', 'nanoseconds'], ['launches', 'count'], ['queue_time', 'nanoseconds'], ['copied', 'bytes'], ['launch_time', 'nanoseconds']]);
  assert.equal(decoded.sample.reduce((sum, one) => sum + Number(one.value[0]), 0), 1000);
  const first = decoded.sample[0]!;
  const names = first.locationId.flatMap((id) => decoded.location[Number(id) - 1]!.line.map((line) => text(decoded.function[Number(line.functionId) - 1]!.name)));
  assert.deepEqual(names, ['conv(float*)', 'cuLaunchKernel', 'cudaLaunchKernel', 'inlined', 'call_function', 'Model.forward', 'train', 'main']);
  assert.deepEqual(first.label.map((label) => [text(label.key), label.str ? text(label.str) : Number(label.num)]),
    [['process', 'python3'], ['pid', 7], ['device', 0], ['stream', 13]]);
  assert.ok(decoded.comment.map(text).includes('anomaly=cupti_dropped 3 lost'));
});

test('folded is what the server writes', () => {
  assert.equal(toFolded(sample(), 'launches').split('\n')[0],
    'main;train (train.py:5);Model.backward (model.py:30);call_function;inlined;cudaLaunchKernel;cuLaunchKernel;conv(float*) 2');
});

test('every anomaly that the server knows has advice', async () => {
  const {readFileSync} = await import('node:fs');
  const source = ['anomalies.cpp'].map((name) => readFileSync(`${process.env.PILLION_SOURCE}/sidecar/profile/${name}`, 'utf8')).join('');
  const kinds = [...source.matchAll(/^ {4}\{"([a-z_]+)",/gm)].map(([, kind]) => kind!);
  assert.ok(kinds.length > 30, `${kinds.length} kinds`);
  assert.deepEqual(kinds.filter((kind) => !advice[kind]), []);
});

test('the page asks for what was chosen, and tells the server’s own words', () => {
  assert.equal(profileUrl({type: 'gpu', seconds: 5, pid: null}, 'pprof'), '/profile?seconds=5');
  assert.equal(profileUrl({type: 'idle', seconds: 5, pid: 42}, 'json'), '/profile?seconds=5&type=idle&pid=42&format=json');
  assert.deepEqual(wordsOf(new ServerError(403, 'needs_grant', 'no', 'add PERFMON')), {title: '403 needs_grant', text: 'no', hint: 'add PERFMON'});
  assert.match(wordsOf(new TypeError('fetch failed')).text, /does not answer/);
});

test('the last windows are kept, and what leaves is named', () => {
  const windows = new Windows();
  const part = (key: string, type = 'gpu') => ({key, summary: {type}} as unknown as Part);
  for (let i = 1; i <= 8; i++) assert.deepEqual(windows.add('w', [part(`k${i}`)], []), []);
  assert.deepEqual(windows.add('w', [part('k9', 'sync')], []).map(({key}) => key), ['k1']);
  assert.deepEqual(windows.comparable(), []);
  windows.show(windows.all[0]!);
  assert.equal(windows.comparable().length, 6);
  windows.before = windows.all[1]!;
  windows.remove(windows.all[1]!);
  assert.equal(windows.before, null);
});
