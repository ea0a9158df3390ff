// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

export type Unit = 'time' | 'bytes' | 'count';

function scaled(value: number, units: [number, string][]): string {
  const size = Math.abs(value);
  const [factor, name] = units.find(([least]) => size >= least) ?? units[units.length - 1]!;
  const shown = value / factor;
  const digits = Math.abs(shown) >= 100 ? 0 : Math.abs(shown) >= 10 ? 1 : 2;
  // 999.96 would round to the next unit's number.
  return `${Number(shown.toFixed(digits)).toLocaleString('en-US', {maximumFractionDigits: digits})}${name && ' ' + name}`;
}

export function duration(ns: number): string {
  if (ns === 0) return '0';
  return scaled(ns, [[60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']]);
}

export function bytes(value: number): string {
  if (value === 0) return '0';
  return scaled(value, [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']]);
}

export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en-US') : value.toLocaleString('en-US', {maximumFractionDigits: 2});
}

export function format(value: number, unit: Unit): string {
  return unit === 'time' ? duration(value) : unit === 'bytes' ? bytes(value) : count(value);
}

// 0.1234 -> "12.3 %"; what is there but rounds to nothing is "< 0.1 %".
export function percent(share: number): string {
  const value = share * 100;
  if (value !== 0 && Math.abs(value) < 0.1) return value > 0 ? '< 0.1 %' : '> −0.1 %';
  return `${value.toLocaleString('en-US', {minimumFractionDigits: 1, maximumFractionDigits: 1})} %`;
}

// A change, with its sign: +1.2 ms, −3 %.
export function signed(text: string, value: number): string {
  return value > 0 ? `+${text}` : text.replace('-', '−');
}

export function clock(unixNs: number): string {
  return new Date(unixNs / 1e6).toLocaleTimeString('en-GB');
}

export function plural(n: number, one: string, many = one + 's'): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
