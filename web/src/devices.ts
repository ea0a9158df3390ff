// SPDX-License-Identifier: Apache-2.0
// What each device did with the window's time: busy, or idle by cause; and where the gaps come from.
import {kCauseKinds, kCauseWords, kindFill} from './colours';
import {h} from './dom';
import {count, duration, percent} from './format';
import {siteCell} from './kernels';
import type {DeviceIdle} from './profile';
import {deviceKey, type GapRow, type Summary} from './summary';
import {makeTable} from './table';

function title(device: DeviceIdle, summary: Summary): string {
  const known = summary.devices.find((one) => one.uuid === device.uuid);
  const users = device.users.map(({pid, device: number}) => {
    const process = summary.processes.find((one) => one.pid === pid);
    return `device ${number} of ${process?.comm ?? 'pid'} (${pid})`;
  });
  return `${known?.name ?? 'GPU'}: ${users.join(', ')}`;
}

const busyFill = () => kindFill('gpu', '');
const causeFill = (cause: string) => kindFill(kCauseKinds[cause] ?? 'idle-unknown', '');

function strip(device: DeviceIdle): HTMLElement {
  const pieces: [string, string, number][] = [['busy', busyFill(), device.busy_ns],
    ...Object.entries(device.idle_by_cause_ns).map(([cause, ns]): [string, string, number] => [cause, causeFill(cause), ns])];
  const shown = pieces.filter(([, , ns]) => ns > 0);
  const text = shown.map(([name, , ns]) => `${name} ${percent(ns / device.window_ns)}`).join(', ');
  return h('div', {class: 'strip', role: 'img', 'aria-label': text}, ...shown.map(([name, fill, ns]) => {
    const piece = h('span', {title: `${name}: ${duration(ns)}, ${percent(ns / device.window_ns)}`},
      ns / device.window_ns > 0.09 ? `${name} ${percent(ns / device.window_ns)}` : '');
    piece.style.background = fill;
    piece.style.flexGrow = String(ns);
    return piece;
  }));
}

function card(device: DeviceIdle, summary: Summary): HTMLElement {
  const rows: {name: string; fill: string; ns: number; words: string; gap?: GapRow}[] = [
    {name: 'busy', fill: busyFill(), ns: device.busy_ns, words: `a kernel or memset ran; ${device.kernel_concurrency.toFixed(2)} kernels at a time on average`}];
  const keys = new Set([device.uuid ?? '', ...device.users.map((user) => deviceKey(user))]);
  for (const [cause, ns] of Object.entries(device.idle_by_cause_ns).sort(([, a], [, b]) => b - a)) {
    rows.push({name: cause, fill: causeFill(cause), ns, words: kCauseWords[cause] ?? '', gap: summary.gaps.find((gap) => gap.cause === cause && keys.has(gap.device))});
  }
  return h('section', {class: 'device'}, h('h3', {}, title(device, summary)), strip(device),
    makeTable({
      caption: `Time of ${title(device, summary)}`, rows, sort: 1, empty: '',
      columns: [
        {title: 'State', text: true, value: (row) => row.name, cell: (row) => {
          const swatch = h('span', {class: 'swatch', 'aria-hidden': 'true'});
          swatch.style.background = row.fill;
          return h('span', {class: 'entry'}, swatch, row.name);
        }},
        {title: 'Time', value: (row) => row.ns, cell: (row) => duration(row.ns)},
        {title: 'Share', value: (row) => row.ns, cell: (row) => percent(row.ns / device.window_ns)},
        {title: 'Gaps', value: (row) => row.gap?.gaps ?? 0, cell: (row) => (row.gap ? count(row.gap.gaps) : '—')},
        {title: 'Mean gap', value: (row) => (row.gap?.gaps ? row.ns / row.gap.gaps : 0), cell: (row) => (row.gap?.gaps ? duration(row.ns / row.gap.gaps) : '—')},
        {title: 'What it means', text: true, value: (row) => row.words},
        {title: 'Ended most by a launch from', text: true, value: (row) => row.gap?.site?.name ?? '', cell: (row) => siteCell(row.gap?.site ?? null)},
      ],
    }));
}

export function makeDevices(idle: Summary): HTMLElement {
  if (idle.deviceIdle.length === 0) return h('p', {class: 'nothing'}, 'No process had a context on a device in this window.');
  return h('div', {class: 'devices'}, ...idle.deviceIdle.map((device) => card(device, idle)));
}
