// SPDX-License-Identifier: Apache-2.0
// What ran, ranked: time, count, mean, share, and where most of it was launched.
import {h} from './dom';
import {count, format, percent, signed} from './format';
import type {KernelRow, Site, Summary} from './summary';
import {bar, makeTable, type Column} from './table';
import {countOf} from './values';

export function siteCell(site: Site | null, sites = 1): Node | string {
  if (!site) return '—';
  return h('span', {class: 'site'}, h('span', {class: 'line', title: site.name}, h('span', {class: 'name'}, site.name), site.place ? ` ${site.place}` : ''),
    site.caller ? h('span', {class: 'caller', title: site.caller}, `called by ${site.caller}`) : null,
    sites > 1 ? h('span', {class: 'caller'}, `and ${count(sites - 1)} more places`) : null);
}

export function makeKernels(summary: Summary, before: Summary | undefined, find: (name: string) => void): HTMLElement {
  const [first] = summary.values;
  const times = first?.key ?? 'gpu_time_ns';
  const counted = countOf(summary.values);
  const number = (row: KernelRow, key: string) => (row.kernel[key] as number) || 0;
  const total = summary.kernels.reduce((sum, row) => sum + number(row, times), 0);
  const mean = (row: KernelRow) => (counted && number(row, counted.key) > 0 ? number(row, times) / number(row, counted.key) : 0);
  const unit = first?.unit ?? 'time';

  const columns: Column<KernelRow>[] = [
    {title: summary.type === 'sync' ? 'Call' : 'Kernel', text: true, value: (row) => String(row.kernel.name),
      cell: (row) => h('button', {type: 'button', class: 'link name', title: `${String(row.kernel.name)}\n\nShow it in the flame graph`, click: () => find(String(row.kernel.name))}, String(row.kernel.name))},
    {title: 'Time', value: (row) => number(row, times), cell: (row) => format(number(row, times), unit)},
    {title: 'Share', value: (row) => number(row, times), cell: (row) => bar(total ? number(row, times) / total : 0, percent(total ? number(row, times) / total : 0))},
    {title: 'Count', value: (row) => (counted ? number(row, counted.key) : 0), cell: (row) => (counted ? count(number(row, counted.key)) : '—')},
    {title: 'Mean', value: mean, cell: (row) => format(mean(row), unit)},
  ];
  if (before) {
    const scale = before.durationNs > 0 ? summary.durationNs / before.durationNs : 1;
    const was = new Map(before.kernels.map((row) => [String(row.kernel.name), number(row, times) * scale]));
    const earlier = (row: KernelRow) => was.get(String(row.kernel.name)) ?? 0;
    const by = (row: KernelRow) => number(row, times) - earlier(row);
    columns.splice(2, 0, {title: 'Change', hint: "Against the other window, scaled to this one's length", value: (row) => Math.abs(by(row)),
      cell: (row) => h('span', {class: by(row) > 0 ? 'up' : 'down'}, signed(format(by(row), unit), by(row)))});
    // What ran only before is a row as well.
    const here = new Set(summary.kernels.map((row) => String(row.kernel.name)));
    const gone = before.kernels.filter((row) => !here.has(String(row.kernel.name)));
    return build([...summary.kernels, ...gone.map((row) => ({...row, kernel: {name: row.kernel.name, system_name: row.kernel.system_name}}))]);
  }
  return build(summary.kernels);

  function build(rows: KernelRow[]): HTMLElement {
    for (const value of summary.values) {
      if (value.key === times || value === counted || !summary.kernels.some((row) => number(row, value.key) > 0)) continue;
      columns.push({title: value.label, value: (row) => number(row, value.key), cell: (row) => (number(row, value.key) ? format(number(row, value.key), value.unit) : '—')});
    }
    columns.push({title: 'Launched most from', text: true, value: (row) => row.site?.name ?? '', cell: (row) => siteCell(row.site, row.sites)});
    return makeTable({
      caption: 'Kernels, copies and sets', columns, rows, sort: before ? 2 : 1,
      filter: (row) => `${row.kernel.name} ${row.kernel.system_name} ${row.site?.name ?? ''} ${row.site?.place ?? ''}`,
      filterLabel: 'Filter kernels and launch sites',
      empty: summary.type === 'sync' ? 'No call waited for the GPU in this window.' : 'Nothing ran on the GPU in this window.',
    });
  }
}
