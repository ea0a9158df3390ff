// SPDX-License-Identifier: Apache-2.0
// A table that is sorted by its headers and filtered by a word.
import {h, replace} from './dom';
import {count} from './format';

export interface Column<Row> {
  title: string;
  hint?: string;
  value: (row: Row) => number | string;  // what it is sorted by
  cell?: (row: Row) => Node | string;    // what is shown; else the value
  text?: boolean;                        // left-aligned, ascending first
}

export interface TableOptions<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  sort: number;              // column, descending unless it is text
  filter?: (row: Row) => string;
  filterLabel?: string;
  empty: string;
}

const kFirst = 100;

export function makeTable<Row>(options: TableOptions<Row>): HTMLElement {
  const {columns} = options;
  let by = options.sort;
  let down = !columns[by]?.text;
  let word = '';
  let all = false;
  const heads = columns.map((column, index) => {
    const button = h('button', {type: 'button', title: column.hint ?? null, click: () => {
      down = by === index ? !down : !column.text;
      by = index;
      fill();
    }}, column.title, h('span', {class: 'arrow', 'aria-hidden': 'true'}));
    return h('th', {scope: 'col', class: column.text ? 'text' : null}, button);
  });
  const body = h('tbody');
  const more = h('button', {type: 'button', class: 'quiet', hidden: true, click: () => { all = true; fill(); }});

  const compare = (a: Row, b: Row): number => {
    const [x, y] = [columns[by]!.value(a), columns[by]!.value(b)];
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  };
  function fill(): void {
    heads.forEach((head, index) => {
      if (index === by) head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
      head.querySelector('.arrow')!.textContent = index === by ? (down ? '▼' : '▲') : '';
    });
    const rows = options.rows.filter((row) => !word || (options.filter?.(row) ?? '').toLowerCase().includes(word)).sort(compare);
    const shown = all ? rows : rows.slice(0, kFirst);
    replace(body, ...shown.map((row) => h('tr', {}, ...columns.map((column) =>
      h('td', {class: column.text ? 'text' : null}, column.cell ? column.cell(row) : String(column.value(row)))))));
    if (shown.length === 0) body.append(h('tr', {}, h('td', {class: 'empty', colspan: columns.length}, word ? `Nothing has “${word}” in it.` : options.empty)));
    more.hidden = shown.length === rows.length;
    more.textContent = `Show all ${count(rows.length)}`;
  }
  fill();
  const filter = options.filter && options.rows.length > 8
    ? h('input', {type: 'search', class: 'filter', placeholder: options.filterLabel ?? 'Filter', 'aria-label': options.filterLabel ?? 'Filter', input: (event: InputEvent) => {
      word = (event.target as HTMLInputElement).value.trim().toLowerCase();
      fill();
    }}) : null;
  return h('div', {class: 'table'}, filter,
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': options.caption},
      h('table', {}, h('caption', {class: 'sr'}, options.caption), h('thead', {}, h('tr', {}, ...heads)), body)), more);
}

// A number with a bar behind it.
export function bar(share: number, text: string, tone = ''): HTMLElement {
  const element = h('span', {class: `bar ${tone}`}, text);
  element.style.setProperty('--share', `${Math.min(100, Math.max(0, share * 100))}%`);
  return element;
}
