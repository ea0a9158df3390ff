// SPDX-License-Identifier: Apache-2.0
// Recording a window: what to record, progress while it runs, what came of it.
import {byId, h, replace} from './dom';
import type {Status, TypeOffer} from './profile';
import {fetchProfile, wordsOf, type WindowRequest} from './server';
import {titleOf, type Part, type ProfileWindow, type Words} from './windows';
import type {WorkerClient} from './worker_client';

const kTypeWords: Record<string, string> = {
  gpu: 'what ran on the GPU, by the stack that launched it', idle: 'why the GPU had nothing to do', sync: 'where threads waited for the GPU',
  cpu: 'where the CPU time went', offcpu: 'where threads were blocked', heap: 'memory that is in use', allocs: 'memory that was allocated',
};

// A server that does not say what it offers is asked for these.
const kUnsaid: TypeOffer[] = ['gpu', 'idle', 'sync'].map((type) => ({type, available: true}));

export interface Recorded { title: string; parts: Part[]; failed: ProfileWindow['failed'] }

export class Recorder {
  private readonly form = byId<HTMLFormElement>('record');
  private readonly process = byId<HTMLSelectElement>('process');
  private readonly types = byId('types');
  private readonly seconds = byId<HTMLInputElement>('seconds');
  private readonly start = byId<HTMLButtonElement>('start');
  private readonly cancel = byId<HTMLButtonElement>('cancel');
  private readonly progress = byId('progress');
  private readonly chosen = new Set(['gpu', 'idle']);
  private offered = '';
  private listed = '';
  private running: AbortController | null = null;
  private next = 1;

  constructor(private readonly worker: WorkerClient, private readonly done: (recorded: Recorded) => void) {
    this.form.onsubmit = (event) => {
      event.preventDefault();
      void this.record();
    };
    this.cancel.onclick = () => this.running?.abort();
    this.offer(kUnsaid);
  }

  // What the server says of itself, again and again; the controls change only where it does.
  update(status: Status): void {
    this.offer(status.profile_types ?? kUnsaid);
    const listed = JSON.stringify(status.processes.map(({pid, comm}) => [pid, comm]));
    if (listed === this.listed) return;
    this.listed = listed;
    const before = this.process.value;
    replace(this.process, h('option', {value: ''}, status.processes.length > 0 ? `All (${status.processes.length})` : 'All'),
      ...status.processes.map(({pid, comm}) => h('option', {value: pid}, `${comm} (${pid})`)));
    this.process.value = status.processes.some(({pid}) => String(pid) === before) ? before : '';
  }

  private offer(types: TypeOffer[]): void {
    const offered = JSON.stringify(types);
    if (offered === this.offered) return;
    this.offered = offered;
    const toggle = ({type, available, reason}: TypeOffer) => h('button', {
      type: 'button', class: available ? 'toggle' : 'toggle missing', 'aria-pressed': String(this.chosen.has(type)), 'data-type': type,
      title: available ? kTypeWords[type] ?? null : `${kTypeWords[type] ?? type}. Not here: ${reason ?? 'the server does not take it'}`,
      'aria-label': available ? null : `${type}, not available here`,
      click: (event: Event) => {
        if (this.chosen.has(type)) this.chosen.delete(type); else this.chosen.add(type);
        (event.currentTarget as HTMLElement).setAttribute('aria-pressed', String(this.chosen.has(type)));
      },
    }, type);
    const missing = types.filter((one) => !one.available);
    replace(this.types, ...types.filter((one) => one.available).map(toggle),
      missing.length > 0 ? h('details', {class: 'others'}, h('summary', {title: 'Types that cannot be recorded here'}, 'more'),
        h('div', {class: 'choices'}, ...missing.map(toggle))) : null);
  }

  private async record(): Promise<void> {
    if (this.running) return;
    const notices = byId('notices');
    const types = [...this.types.querySelectorAll<HTMLElement>('button[aria-pressed=true]')].map((button) => button.dataset.type!);
    const seconds = Number(this.seconds.value);
    if (types.length === 0) {
      replace(notices, notice({title: 'Nothing to record', text: 'No type is chosen.', hint: 'Press gpu for what ran on the GPU, idle for why it waited.'}));
      return;
    }
    replace(notices);
    this.running = new AbortController();
    const stop = this.showProgress(seconds);
    const pid = this.process.value === '' ? null : Number(this.process.value);
    try {
      const recorded = await this.take(types.map((type) => ({type, seconds, pid})), this.running.signal);
      if (recorded) this.done(recorded);
    } finally {
      stop();
      this.running = null;
    }
  }

  // All at once: so all types are of the same time.
  private async take(requests: WindowRequest[], signal: AbortSignal): Promise<Recorded | null> {
    const parts: Part[] = [];
    const failed: ProfileWindow['failed'] = [];
    const number = this.next++;
    await Promise.all(requests.map(async (request) => {
      try {
        const data = await fetchProfile(request, signal);
        const key = `${number}/${request.type}`;
        parts.push({key, summary: await this.worker.load(key, data)});
      } catch (error) {
        if (!signal.aborted) failed.push({type: request.type, words: wordsOf(error)});
      }
    }));
    if (signal.aborted) {
      for (const part of parts) void this.worker.drop(part.key);
      return null;
    }
    const place = (type: string) => requests.findIndex((request) => request.type === type);
    parts.sort((a, b) => place(a.summary.type) - place(b.summary.type));
    return {title: parts[0] ? titleOf(parts[0].summary) : '', parts, failed};
  }

  private showProgress(seconds: number): () => void {
    const fill = h('span', {class: 'fill'});
    const text = h('span', {class: 'text'});
    const track = h('div', {class: 'track', role: 'progressbar', 'aria-label': 'Recording', 'aria-valuemin': 0, 'aria-valuemax': seconds}, fill);
    replace(this.progress, track, text);
    const begin = performance.now();
    const step = () => {
      const passed = Math.min(seconds, (performance.now() - begin) / 1000);
      track.setAttribute('aria-valuenow', passed.toFixed(0));
      fill.style.width = `${(passed / seconds) * 100}%`;
      text.textContent = passed < seconds ? `Recording: ${passed.toFixed(0)} of ${seconds} s` : 'The window has ended; waiting for the profile…';
    };
    step();
    const timer = setInterval(step, 200);
    this.busy(true);
    return () => {
      clearInterval(timer);
      this.busy(false);
    };
  }

  private busy(on: boolean): void {
    this.progress.hidden = !on;
    this.cancel.hidden = !on;
    this.start.disabled = on;
    for (const element of [this.process, this.seconds, ...this.types.querySelectorAll('button')]) element.toggleAttribute('disabled', on);
  }
}

// Types that failed for the same reason are told once; the hints may differ in a count that has changed meanwhile.
export function failureNotices(failed: ProfileWindow['failed']): HTMLElement[] {
  const same = new Map<string, {types: string[]; words: Words}>();
  for (const {type, words} of failed) {
    const key = `${words.title}\0${words.text}`;
    const known = same.get(key);
    if (known) known.types.push(type);
    else same.set(key, {types: [type], words});
  }
  return [...same.values()].map(({types, words}) => notice({...words, title: `${types.join(', ')}: ${words.title}`}));
}

export function notice(words: Words): HTMLElement {
  const box = h('div', {class: 'notice'},
    h('div', {}, h('strong', {}, words.title), h('p', {}, words.text), words.hint ? h('pre', {class: 'hint'}, words.hint) : null),
    h('button', {type: 'button', class: 'quiet', 'aria-label': 'Close this message', click: () => box.remove()}, '✕'));
  return box;
}
