// SPDX-License-Identifier: Apache-2.0
// The page's end of the worker.
import type {ExportFormat, FlameAnswer, FlameRequest} from './store';
import type {Summary} from './summary';

export type Question =
  | {op: 'load'; key: string; data: ArrayBuffer}
  | {op: 'flame'; request: FlameRequest}
  | {op: 'save'; key: string; format: ExportFormat; value: string}
  | {op: 'drop'; key: string};

export interface Answer { id: number; value?: unknown; error?: string }

export class WorkerClient {
  private readonly worker = new Worker('/web/worker.js', {type: 'module'});
  private readonly waiting = new Map<number, {resolve: (value: never) => void; reject: (error: Error) => void}>();
  private next = 1;

  constructor() {
    this.worker.onmessage = (event: MessageEvent<Answer>) => {
      const {id, value, error} = event.data;
      const waiter = this.waiting.get(id);
      this.waiting.delete(id);
      if (error !== undefined) waiter?.reject(new Error(error));
      else waiter?.resolve(value as never);
    };
    // Out of memory, as a rule: nothing that was asked will be answered.
    this.worker.onerror = () => {
      for (const {reject} of this.waiting.values()) reject(new Error('The page ran out of memory over this profile. Reload it, and take a shorter window.'));
      this.waiting.clear();
    };
  }

  load(key: string, data: ArrayBuffer): Promise<Summary> { return this.ask({op: 'load', key, data}, [data]); }
  flame(request: FlameRequest): Promise<FlameAnswer> { return this.ask({op: 'flame', request}); }
  save(key: string, format: ExportFormat, value: string): Promise<Blob> { return this.ask({op: 'save', key, format, value}); }
  drop(key: string): Promise<void> { return this.ask({op: 'drop', key}); }

  private ask<Value>(question: Question, transfer: Transferable[] = []): Promise<Value> {
    return new Promise<Value>((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, {resolve, reject});
      this.worker.postMessage({id, question}, transfer);
    });
  }
}
