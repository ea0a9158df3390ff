// SPDX-License-Identifier: Apache-2.0
// Which values a profile's stacks have. Named by the server: a type that this page does not know gets its columns, too.
import type {Unit} from './format';
import type {Kernel, Stack} from './profile';

export interface Value { key: string; label: string; unit: Unit }

const kLabels: Record<string, string> = {
  gpu_time_ns: 'GPU time', launches: 'Launches', queue_time_ns: 'Queue time', launch_time_ns: 'Launch call time',
  copied_bytes: 'Bytes copied', gpu_idle_ns: 'GPU idle time', gaps: 'Pieces of idle time', sync_time_ns: 'Time waiting',
  sync_calls: 'Waiting calls',
};

export function describe(key: string): Value {
  const unit: Unit = key.endsWith('_ns') ? 'time' : key.endsWith('_bytes') ? 'bytes' : 'count';
  const words = key.replace(/_(ns|bytes)$/, unit === 'bytes' ? '_bytes' : '').replace(/_/g, ' ');
  return {key, unit, label: kLabels[key] ?? words.charAt(0).toUpperCase() + words.slice(1)};
}

// In the order in which the server writes them; the first is what the profile is of.
export function valuesOf(row: Stack | Kernel | undefined): Value[] {
  if (!row) return [];
  return Object.keys(row).filter((key) => typeof row[key] === 'number').map(describe);
}

// The value that counts events, for a mean: of gpu_time_ns the launches.
export function countOf(values: Value[]): Value | undefined {
  return values.find((value) => value.unit === 'count');
}
