// SPDX-License-Identifier: Apache-2.0
// What the server sends: sidecar/export/profile.schema.json, as far as the page reads it, and /status.

export interface Line { function: string; system_name?: string; file?: string; line?: number }
export interface Frame { lines: Line[]; mapping?: number; address?: number; python?: true }
export interface Mapping { file: string; build_id: string }
export type Labels = Record<string, string | number>;

// Besides frames and labels one number for each value: gpu_time_ns, launches, ...
export interface Stack { frames: number[]; labels: Labels; [value: string]: number | number[] | Labels }

export interface Kernel { name: string; system_name: string; [value: string]: number | string }

export interface Bin { from_ns: number; count: number }
export interface Distribution {
  count: number; sum_ns: number; min_ns: number; max_ns: number;
  p50_ns: number; p90_ns: number; p99_ns: number; histogram: Bin[];
}
export interface Latency {
  name: string; system_name: string; pid: number; device?: number; context?: number; stream?: number;
  queue: Distribution; launch_call: Distribution;
}

export interface Process { pid: number; comm: string; exe: string }
export interface Device { pid: number; device: number; uuid: string; name: string; multiprocessors: number; mig: boolean }
export interface DeviceIdle {
  users: {pid: number; device: number}[]; uuid?: string; window_ns: number; busy_ns: number; busy_share: number;
  kernel_concurrency: number; idle_ns: number; idle_by_cause_ns: Record<string, number>;
}

export interface Anomaly { kind: string; total: number; meaning: string; detail?: string }
export type Quality = Record<string, number | string | Anomaly[]> & {anomalies: Anomaly[]};

export interface Profile {
  schema: string; type: string;
  window: {start_unix_ns: number; start_monotonic_ns: number; duration_ns: number};
  processes: Process[]; devices: Device[]; device_idle?: DeviceIdle[]; settings: Record<string, unknown>[];
  quality: Quality; kernels: Kernel[]; latencies: Latency[];
  mappings: Mapping[]; frames: Frame[]; stacks: Stack[];
}

export interface AttachedProcess { pid: number; comm: string; exe: string; state: string; last_refusal?: string }
export interface TypeOffer { type: string; available: boolean; reason?: string }
export interface Status {
  processes: AttachedProcess[]; profile_types?: TypeOffer[]; not_attached?: string[];
  anomalies?: Anomaly[]; http?: {windows_running: number; windows_max: number};
  socket_directory?: {path: string; exists: boolean; sockets: number; error: string};
}
