// SPDX-License-Identifier: Apache-2.0
// How long launches waited and how long the calls took, by kernel and stream.
import {h, s} from './dom';
import {count, duration} from './format';
import type {Distribution, Latency} from './profile';
import {makeTable, type Column} from './table';
import type {Summary} from './summary';

// Powers of two as bars; the range is the same for all rows, so that they can be compared.
function histogram(of: Distribution, from: number, to: number): SVGElement {
  const [width, height] = [90, 22];
  const bins = Math.max(1, to - from + 1);
  const most = Math.max(1, ...of.histogram.map((bin) => bin.count));
  const bars = of.histogram.map((bin) => {
    const tall = Math.max(1.5, (bin.count / most) * (height - 1));
    return s('rect', {x: ((power(bin.from_ns) - from) / bins) * width, y: height - tall, width: Math.max(1, width / bins - 1), height: tall, rx: 1});
  });
  const text = `${duration(of.min_ns)} to ${duration(of.max_ns)}`;
  return s('svg', {class: 'histogram', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': text}, s('title', {}, text), ...bars);
}

export const power = (ns: number) => (ns <= 1 ? 0 : Math.floor(Math.log2(ns)));

export function makeLatencies(summary: Summary): HTMLElement {
  const rows = summary.latencies;
  const powers = (pick: (row: Latency) => Distribution) => rows.flatMap((row) => pick(row).histogram.map((bin) => power(bin.from_ns)));
  const columnsOf = (label: string, pick: (row: Latency) => Distribution): Column<Latency>[] => {
    const all = powers(pick);
    const [from, to] = [Math.min(...all, 40), Math.max(...all, 0)];
    const percentile = (name: 'p50_ns' | 'p90_ns' | 'p99_ns' | 'max_ns', title: string): Column<Latency> =>
      ({title, hint: `${label}, ${title}`, value: (row) => pick(row)[name], cell: (row) => duration(pick(row)[name])});
    return [
      {title: label, value: (row) => pick(row).sum_ns, hint: 'Its distribution, in powers of two; sorted by the sum', cell: (row) => histogram(pick(row), from, to) as unknown as Node},
      percentile('p50_ns', 'p50'), percentile('p90_ns', 'p90'), percentile('p99_ns', 'p99'), percentile('max_ns', 'max'),
    ];
  };
  return h('div', {},
    h('p', {class: 'lead'}, 'Queue time is from the launch call to the start on the GPU; launch call is how long the call itself took. Percentiles are within 1.6 %.'),
    makeTable({
      caption: 'Queue and launch time by kernel and stream', rows, sort: 3,
      columns: [
        {title: 'Kernel', text: true, value: (row) => row.name, cell: (row) => h('span', {class: 'name', title: row.name}, row.name)},
        {title: 'Where', text: true, value: (row) => row.stream ?? -1, cell: (row) => (row.stream === undefined ? '—' : h('span', {}, `stream ${row.stream}`, h('span', {class: 'site caller'}, `device ${row.device}, pid ${row.pid}`)))},
        {title: 'Count', value: (row) => row.queue.count, cell: (row) => count(row.queue.count)},
        ...columnsOf('Queue time', (row) => row.queue),
        ...columnsOf('Launch call', (row) => row.launch_call),
      ],
      filter: (row) => `${row.name} ${row.system_name} stream ${row.stream}`, filterLabel: 'Filter kernels and streams',
      empty: 'No launch was joined with its execution in this window.',
    }));
}
