// SPDX-License-Identifier: Apache-2.0
// What the profile says of itself: what went wrong, in words, and what was counted.
import advice from 'pillion:advice';

import {h, withCode} from './dom';
import {count, percent} from './format';
import type {Anomaly, Quality} from './profile';
import {makeTable} from './table';
import type {ProfileWindow} from './windows';

export interface Trouble extends Anomaly { types: string[]; advice: string }

// The same thing usually went wrong for all types of a window, which were recorded at the same time.
export function troubles(window: ProfileWindow): Trouble[] {
  const found = new Map<string, Trouble>();
  for (const {summary} of window.parts) {
    for (const anomaly of summary.quality.anomalies) {
      const key = `${anomaly.kind}\0${anomaly.detail ?? ''}`;
      const known = found.get(key);
      if (known) {
        known.types.push(summary.type);
        known.total = Math.max(known.total, anomaly.total);
      } else {
        found.set(key, {...anomaly, types: [summary.type], advice: advice[anomaly.kind] ?? ''});
      }
    }
  }
  return [...found.values()];
}

function troubleCard(trouble: Trouble): HTMLElement {
  return h('li', {class: 'trouble'},
    h('h3', {}, trouble.meaning.charAt(0).toUpperCase() + trouble.meaning.slice(1), h('span', {class: 'badge'}, count(trouble.total))),
    trouble.detail ? h('p', {}, trouble.detail) : null,
    trouble.advice ? h('p', {class: 'advice'}, h('strong', {}, 'What to do: '), ...withCode(trouble.advice)) : null,
    h('p', {class: 'hint'}, h('code', {}, trouble.kind), ` in the ${trouble.types.join(', ')} profile`));
}

const kGroups: [string, [string, string][]][] = [
  ['Launches', [['launches', 'seen'], ['executions', 'executions on the GPU'], ['joined', 'joined with their launch'], ['launched_before_session', 'launched before the session'],
    ['pending', 'still under way at the end'], ['launches_failed', 'failed']]],
  ['Stacks', [['snapshots', 'snapshots taken'], ['stacks', 'unwound'], ['stacks_ending_rooted', 'whole, to the root'], ['stacks_distinct', 'distinct'], ['stacks_merged', 'merged into [other]']]],
  ['Cost', [['shim_ns_per_launch', 'ns for each launch'], ['shim_percent_of_launching_threads', '% of the launching threads'], ['launching_threads', 'launching threads']]],
  ['Versions', [['cupti_version', 'CUPTI'], ['driver_version', 'driver'], ['cupti_path', 'libcupti'], ['python', 'Python']]],
];

// 13000 -> 13.0
const cudaVersion = (version: number) => `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;

function figures(quality: Quality): HTMLElement {
  const text = (value: unknown, key = '') => (key === 'driver_version' && Number(value) >= 1000 ? cudaVersion(Number(value))
    : typeof value === 'number' ? count(value) : String(value));
  const cards = kGroups.map(([title, rows]) => h('section', {class: 'figures'}, h('h3', {}, title),
    h('dl', {}, ...rows.filter(([key]) => quality[key] !== undefined).flatMap(([key, label]) => [h('dt', {}, label), h('dd', {}, text(quality[key], key))]))));
  const all = Object.entries(quality).filter(([name]) => name !== 'anomalies') as [string, number | string][];
  return h('div', {}, h('div', {class: 'grid'}, ...cards),
    h('details', {}, h('summary', {}, `All ${all.length} figures`), makeTable({
      caption: 'All figures of the quality block', rows: all, sort: 0, empty: '', filter: ([name]) => name, filterLabel: 'Filter figures',
      columns: [{title: 'Figure', text: true, value: ([name]) => name, cell: ([name]) => h('code', {}, name)},
        {title: 'Value', value: ([, value]) => value, cell: ([, value]) => text(value)}],
    })));
}

export function makeQuality(window: ProfileWindow): HTMLElement {
  const found = troubles(window);
  const quality = window.parts[0]!.summary.quality;
  const [launches, joined] = [Number(quality.launches ?? 0), Number(quality.joined ?? 0)];
  const executions = Number(quality.executions ?? 0);
  const verdict = found.length > 0 ? null : h('p', {class: 'good'}, launches === 0 && executions === 0
    ? 'Nothing went wrong; no launch was seen in this window.'
    : `Nothing was lost: ${count(executions)} executions, ${percent(executions ? joined / executions : 1)} of them joined with their launch.`);
  return h('div', {class: 'quality'}, verdict, found.length > 0 ? h('ul', {class: 'troubles'}, ...found.map(troubleCard)) : null, figures(quality));
}
