// SPDX-License-Identifier: Apache-2.0
// The window that is shown: its figures, its tabs, and how to save it.
import {makeDevices} from './devices';
import {h, replace, saveAs} from './dom';
import {FlamePanel, type FlameSettings} from './flame_panel';
import {clock, count, duration, format, percent, plural} from './format';
import {makeKernels} from './kernels';
import {makeLatencies} from './latencies';
import {makeQuality, troubles} from './quality';
import {failureNotices, notice} from './record';
import type {Status} from './profile';
import type {ExportFormat} from './store';
import type {Summary} from './summary';
import {makeTabs, type Tab} from './tabs';
import type {Part, Windows} from './windows';
import type {WorkerClient} from './worker_client';

export class Result {
  private tab = 'flame';
  private panel: FlamePanel | null = null;
  private alone = false;
  private status: Status | null = null;

  constructor(private readonly root: HTMLElement, private readonly windows: Windows, private readonly worker: WorkerClient,
              private readonly settings: FlameSettings) {
    root.addEventListener('compare', () => this.draw());
    document.addEventListener('keydown', (event) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== '/' || typing || !this.panel) return;
      event.preventDefault();
      this.root.querySelector<HTMLElement>('#tab-flame')?.click();
      this.panel.search.focus();
    });
  }

  // What is attached changes what the page says before anything was recorded.
  attached(status: Status): void {
    const alone = status.processes.length === 0;
    if (alone === this.alone) return;
    this.alone = alone;
    this.status = status;
    if (!this.windows.current) this.draw();
  }

  draw(): void {
    const window = this.windows.current;
    if (!window) {
      this.panel = null;
      replace(this.root, this.alone && this.status ? nobody(this.status) : welcome());
      return;
    }
    const failures = failureNotices(window.failed);
    if (window.parts.length === 0) {
      this.panel = null;
      replace(this.root, ...failures);
      return;
    }
    this.panel = new FlamePanel(this.windows, this.worker, this.settings);
    replace(this.root, ...failures, h('div', {class: 'card head'}, this.cards(window.parts), this.saving(window.parts)),
      h('div', {class: 'card'}, makeTabs('Views of this window', this.tabs(window.parts), this.tab, (id) => { this.tab = id; })));
  }

  private tabs(parts: Part[]): Tab[] {
    const of = (test: (summary: Summary) => boolean) => parts.filter((part) => test(part.summary));
    const tabs: Tab[] = [{id: 'flame', title: 'Flame graph', panel: this.panel!.root, shown: () => void this.panel?.refresh()}];
    for (const {summary} of of((one) => one.kernels.length > 0)) {
      const title = summary.type === 'sync' ? 'Waiting calls' : summary.type === 'gpu' ? 'Kernels' : `Ranked (${summary.type})`;
      tabs.push({id: `kernels-${summary.type}`, title, badge: count(summary.kernels.length),
        panel: makeKernels(summary, this.windows.partBefore(summary.type)?.summary, (name) => this.find(summary, name))});
    }
    for (const {summary} of of((one) => one.type === 'idle')) tabs.push({id: 'devices', title: 'Busy and idle', panel: makeDevices(summary)});
    for (const {summary} of of((one) => one.latencies.length > 0)) tabs.push({id: 'latency', title: 'Latency', panel: makeLatencies(summary)});
    const wrong = troubles(this.windows.current!).length;
    tabs.push({id: 'quality', title: 'Quality', badge: wrong > 0 ? count(wrong) : '✓', tone: wrong > 0 ? 'bad' : undefined, panel: makeQuality(this.windows.current!)});
    return tabs;
  }

  private find(summary: Summary, name: string): void {
    if (this.settings.type !== summary.type) [this.settings.type, this.settings.value] = [summary.type, ''];
    this.tab = 'flame';
    this.settings.search = name;
    this.draw();
  }

  private cards(parts: Part[]): HTMLElement {
    const figures: [string, string, string?][] = [];
    const add = (name: string, value: string, more?: string) => figures.push([name, value, more]);
    const first = parts[0]!.summary;
    add('Window', duration(first.durationNs), `${clock(first.startUnixNs)} · ${plural(first.processes.length, 'process', 'processes')}`);
    for (const {summary} of parts) {
      const [value, counted] = [summary.values[0], summary.values.find((one) => one.unit === 'count')];
      if (value) add(value.label, format(value.total, value.unit), counted ? plural(counted.total, counted.label.toLowerCase().replace(/e?s$/, ''), counted.label.toLowerCase()) : undefined);
      if (summary.deviceIdle.length > 0) {
        const busy = summary.deviceIdle.reduce((sum, one) => sum + one.busy_share, 0) / summary.deviceIdle.length;
        add('GPU busy', percent(busy), plural(summary.deviceIdle.length, 'device'));
      }
    }
    const wrong = troubles(this.windows.current!);
    const quality = h('div', {class: wrong.length > 0 ? 'figure bad' : 'figure good'}, h('dt', {}, 'Quality'),
      h('dd', {}, wrong.length > 0 ? plural(wrong.length, 'problem') : 'complete'),
      h('dd', {class: 'more'}, wrong[0]?.meaning ?? 'nothing was lost'));
    return h('dl', {class: 'figuresrow'}, ...figures.map(([name, value, more]) => h('div', {class: 'figure'}, h('dt', {}, name), h('dd', {}, value), more ? h('dd', {class: 'more'}, more) : null)), quality);
  }

  private saving(parts: Part[]): HTMLElement {
    const type = h('select', {id: 'save-type', 'aria-label': 'Profile to save'}, ...parts.map((part) => h('option', {value: part.key}, part.summary.type)));
    const button = (format: ExportFormat, suffix: string, title: string) => h('button', {type: 'button', 'data-format': format, title, click: async () => {
      const part = parts.find((one) => one.key === type.value)!;
      try {
        const value = part.summary.values[0]?.key ?? '';
        saveAs(await this.worker.save(part.key, format, value), `pillion-${part.summary.type}-${clock(part.summary.startUnixNs).replaceAll(':', '')}${suffix}`);
      } catch (error) {
        this.root.prepend(notice({title: 'Not saved', text: String(error instanceof Error ? error.message : error), hint: ''}));
      }
    }}, format);
    return h('div', {class: 'saving', role: 'group', 'aria-label': 'Save this window'}, h('span', {}, 'Save'), parts.length > 1 ? type : h('span', {hidden: true}, type),
      button('pprof', '.pb.gz', 'For go tool pprof'), button('json', '.json', 'All that is shown here; Open file reads it again'),
      button('folded', '.folded', 'For flamegraph.pl and speedscope'));
  }
}

function nobody(status: Status): HTMLElement {
  const directory = status.socket_directory;
  return h('div', {class: 'card welcome'}, h('h2', {}, 'No program is attached'),
    h('p', {}, 'A CUDA program is seen here as soon as it starts with the shim:'),
    h('pre', {}, 'CUDA_INJECTION64_PATH=…/libpillion.so your-program'),
    directory ? h('p', {}, `Its socket comes into ${directory.path}`, directory.exists ? '.' : `, which is not there${directory.error ? `: ${directory.error}` : ''}.`) : null,
    ...(status.not_attached ?? []).map((text) => h('p', {class: 'hint'}, text)),
    h('p', {class: 'hint'}, h('code', {}, 'pillion doctor'), ' says of every CUDA process what is missing. This page follows by itself; a profile that was saved can be opened meanwhile.'));
}

function welcome(): HTMLElement {
  return h('div', {class: 'card welcome'}, h('h2', {}, 'No window yet'),
    h('p', {}, 'Press ', h('strong', {}, 'Record'), ' to see what the GPU does, under the stacks that make it do so. The program goes on as before; what its launches cost more while the window is open is in the quality block.'),
    h('ul', {},
      h('li', {}, h('strong', {}, 'gpu'), ': every kernel, copy and memset, counted exactly, under the CPU stack that launched it.'),
      h('li', {}, h('strong', {}, 'idle'), ': the time in which the GPU had nothing to do, by cause and by the launch that ended it.'),
      h('li', {}, h('strong', {}, 'sync'), ': the calls in which threads waited for the GPU.')),
    h('p', {class: 'hint'}, 'Types are recorded at the same time. Windows stay in this page, so that two can be compared; nothing leaves this machine.'));
}
