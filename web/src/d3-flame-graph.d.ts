// SPDX-License-Identifier: Apache-2.0
// What the page uses of d3-flame-graph and d3-selection, which bring no types.
declare module 'd3-flame-graph' {
  export interface Laid<Data> { data: Data; x0: number; x1: number; depth: number; parent: Laid<Data> | null; children?: Laid<Data>[] }
  export interface Tooltip<Data> { (): void; show(event: MouseEvent, d: Laid<Data>): void; hide(): void; destroy(): void }
  export interface Chart<Data> {
    (selection: unknown): void;
    width(px: number): this;
    cellHeight(px: number): this;
    transitionDuration(ms: number): this;
    inverted(rootOnTop: boolean): this;
    resetHeightOnZoom(on: boolean): this;
    tooltip(tip: Tooltip<Data>): this;
    getName(name: (d: Laid<Data>) => string): this;
    setColorMapper(fill: (d: Laid<Data>, original: string) => string): this;
    setDetailsHandler(handler: (text: string | null) => void): this;
    update(data?: Data): this;
  }
  export default function flamegraph<Data>(): Chart<Data>;
}
declare module 'd3-selection' {
  export interface Selection { datum(data: unknown): Selection; call(chart: (selection: unknown) => void): Selection }
  export function select(element: Element): Selection;
}
declare module 'pillion:advice' {
  const advice: Record<string, string>;  // anomaly kind -> what to do, from sidecar/README.md
  export default advice;
}
declare module '*.css';
