// SPDX-License-Identifier: Apache-2.0
// The flame graph with what sets it: which value, which way round, grouping, search, zoom, legend.
import {change, kindFill, kKindNames} from './colours';
import {h, replace} from './dom';
import {Flame} from './flame';
import {format, percent, plural, signed} from './format';
import type {Kind} from './names';
import type {Group} from './tree';
import type {Value} from './values';
import type {View, ViewNode} from './view';
import type {Part, Windows} from './windows';
import {describeWindow} from './windows';
import type {WorkerClient} from './worker_client';

// Kept from window to window, so that two can be looked at in the same way.
export interface FlameSettings { type: string; value: string; reverse: boolean; lines: boolean; group: Group; icicle: boolean; search: string }
export const firstSettings = (): FlameSettings =>
  ({type: '', value: '', reverse: false, lines: false, group: 'none', icicle: true, search: ''});

const kMostBoxes = 1500;  // SVG: what is drawn in 0.2 s
const kLeastPx = 1;

export class FlamePanel {
  readonly root = h('div', {class: 'flame-panel'});
  private readonly host = h('div', {class: 'flame', 'aria-label': 'Flame graph'});
  private readonly detail = h('p', {class: 'detail', 'aria-live': 'polite'});
  private readonly legend = h('div', {class: 'legend'});
  private readonly message = h('p', {class: 'message', role: 'status'});
  private readonly matched = h('output', {class: 'matched', 'aria-live': 'polite'});
  private readonly reset = h('button', {type: 'button', disabled: true, click: () => this.zoom(0)}, 'Reset zoom');
  readonly search = h('input', {type: 'search', id: 'search', placeholder: 'Search functions  ( / )', 'aria-label': 'Search functions; a regular expression between slashes', spellcheck: 'false'});
  private readonly flame: Flame;
  private part: Part;
  private value: Value & {total: number};
  private focus = 0;
  private total = 0;
  private shown: View | null = null;
  private asked = 0;
  private draws = 0;

  constructor(private readonly windows: Windows, private readonly worker: WorkerClient, private readonly settings: FlameSettings) {
    const tip = h('div', {class: 'tip', hidden: true, role: 'tooltip'});
    this.flame = new Flame(this.host, tip, {
      zoom: (node) => this.zoom(node),
      look: (node) => this.say(node),
      describe: (node) => this.describe(node),
    });
    const parts = windows.current!.parts.filter((part) => part.summary.values.length > 0);
    this.part = parts.find((part) => part.summary.type === settings.type) ?? parts[0] ?? windows.current!.parts[0]!;
    this.value = this.part.summary.values.find((value) => value.key === settings.value) ?? this.part.summary.values[0]!;
    this.search.value = settings.search;
    this.search.oninput = () => { settings.search = this.search.value; void this.refresh(); };
    if (parts.length === 0) {
      replace(this.root, emptyMessage(this.part));
      return;
    }
    replace(this.root, this.toolbar(parts), h('div', {class: 'row'}, this.legend, this.message), this.detail, this.host, tip);
    let width = 0;
    new ResizeObserver(() => {
      if (this.host.clientWidth > 0 && this.host.clientWidth !== width) { width = this.host.clientWidth; void this.refresh(); }
    }).observe(this.host);
  }

  // Shows where this function is: from the tables.
  find(name: string, reverse: boolean): void {
    this.search.value = this.settings.search = name;
    if (this.settings.reverse !== reverse) {
      this.settings.reverse = reverse;
      this.root.querySelector<HTMLSelectElement>('#order')!.value = reverse ? 'leaf' : 'caller';
    }
    this.zoom(0);
  }

  private toolbar(parts: Part[]): HTMLElement {
    const value = h('select', {id: 'value', 'aria-label': 'Value'}, ...parts.map((part) => h('optgroup', {label: part.summary.type},
      ...part.summary.values.map((one) => h('option', {value: `${part.summary.type}/${one.key}`}, one.label)))));
    value.value = `${this.part.summary.type}/${this.value.key}`;
    value.onchange = () => {
      const [type, key] = value.value.split('/') as [string, string];
      this.part = parts.find((part) => part.summary.type === type)!;
      this.value = this.part.summary.values.find((one) => one.key === key)!;
      [this.settings.type, this.settings.value] = [type, key];
      this.zoom(0);
    };
    const order = this.choice('order', 'From', {caller: 'callers', leaf: this.part.summary.type === 'gpu' ? 'kernels' : 'leaves'}, this.settings.reverse ? 'leaf' : 'caller',
      (chosen) => { this.settings.reverse = chosen === 'leaf'; });
    const group = this.choice('group', 'Group by', {none: 'nothing', process: 'process', thread: 'thread', device: 'device', stream: 'stream'},
      this.settings.group, (chosen) => { this.settings.group = chosen as Group; });
    const shape = this.choice('shape', 'Draw', {icicle: 'Downwards', flame: 'Upwards'}, this.settings.icicle ? 'icicle' : 'flame',
      (chosen) => { this.settings.icicle = chosen === 'icicle'; });
    const lines = h('input', {type: 'checkbox', id: 'lines'});
    lines.checked = this.settings.lines;
    lines.onchange = () => { this.settings.lines = lines.checked; this.zoom(0); };
    const others = this.windows.comparable();
    const compare = others.length === 0 ? null : h('label', {class: 'field'}, 'Compare with',
      h('select', {id: 'compare'}, h('option', {value: ''}, 'nothing'), ...others.map((one) => h('option', {value: one.id}, describeWindow(one)))));
    if (compare) {
      const select = compare.querySelector('select')!;
      select.value = this.windows.before ? String(this.windows.before.id) : '';
      select.onchange = () => {
        this.windows.before = others.find((one) => String(one.id) === select.value) ?? null;
        this.root.dispatchEvent(new CustomEvent('compare', {bubbles: true}));
      };
    }
    return h('div', {class: 'toolbar'},
      h('label', {class: 'field'}, 'Value', value), order, group, shape, compare,
      h('label', {class: 'check'}, lines, 'Line numbers'),
      h('div', {class: 'search'}, this.search, this.matched, this.reset));
  }

  private choice(id: string, label: string, options: Record<string, string>, chosen: string, set: (value: string) => void): HTMLElement {
    const select = h('select', {id}, ...Object.entries(options).map(([value, text]) => h('option', {value}, text)));
    select.value = chosen;
    select.onchange = () => { set(select.value); this.zoom(0); };
    return h('label', {class: 'field'}, label, select);
  }

  private zoom(node: number): void {
    this.focus = node;
    void this.refresh();
  }

  async refresh(): Promise<void> {
    const width = this.host.clientWidth;
    if (width === 0) return;  // not on the screen
    const ask = ++this.asked;
    const before = this.windows.partBefore(this.part.summary.type);
    const {reverse, lines, group, icicle, search} = this.settings;
    const late = setTimeout(() => { this.message.textContent = 'Laying out…'; }, 300);
    try {
      const view = await this.worker.flame({
        profile: this.part.key, before: before?.key ?? null, value: this.value.key, all: `all: ${this.value.label}`,
        focus: this.focus, width, limit: kMostBoxes, least: kLeastPx, search, reverse, lines, group,
      });
      if (ask !== this.asked) return;  // something newer has been asked for
      const start = performance.now();
      this.shown = view;
      this.total = view.total;
      const searching = view.matched !== null;
      this.host.classList.toggle('upwards', !icicle);
      this.flame.draw(view, this.focus, width, {icicle, comparing: before !== undefined, searching});
      this.reset.disabled = this.focus === 0;
      this.matched.textContent = searching ? `${percent(view.matched!)} matched` : '';
      this.message.textContent = view.total === 0 ? `No ${this.value.label.toLowerCase()} in this window.`
        : view.folded > 0 ? `${plural(view.folded, 'frame is', 'frames are')} too narrow to draw here: zoom in to see more.` : '';
      this.fillLegend(before !== undefined);
      this.host.setAttribute('aria-label', `Flame graph of ${this.value.label}. Arrow keys move, Enter zooms, Escape shows all.`);
      this.host.dataset.draws = String(++this.draws);  // for those who measure, as the next two
      this.host.dataset.boxes = String(view.boxes);
      this.host.dataset.ms = `${view.ms.toFixed(0)} + ${(performance.now() - start).toFixed(0)}`;
      this.say(null);
    } catch (error) {
      if (ask !== this.asked) return;
      this.message.textContent = error instanceof SyntaxError || String(error).includes('regular expression')
        ? 'This regular expression is not complete.' : String(error instanceof Error ? error.message : error);
    } finally {
      clearTimeout(late);
    }
  }

  private describe(node: ViewNode): string {
    const {unit} = this.value;
    const share = this.total > 0 ? `, ${percent(node.after / this.total)}` : '';
    const lines = [node.name, `${format(node.after, unit)}${share} of ${this.value.label}`];
    if (node.before !== undefined) {
      const by = node.after - node.before;
      lines.push(`before ${format(node.before, unit)}, change ${signed(format(by, unit), by)} (${signed(percent(change(node)), by)})`);
    } else if (node.self > 0 && node.children) {
      lines.push(`itself ${format(node.self, unit)}`);
    }
    if (node.place) lines.push(node.place);
    return lines.join('\n');
  }

  private say(node: ViewNode | null): void {
    this.detail.classList.toggle('frame', node !== null);
    if (node) this.detail.textContent = this.describe(node).replaceAll('\n', '  ·  ');
    else this.detail.textContent = 'Click or press Enter on a frame to zoom in. Arrow keys move, Escape shows all, / searches.';
  }

  private fillLegend(comparing: boolean): void {
    const entry = (fill: string, text: string) => {
      const swatch = h('span', {class: 'swatch', 'aria-hidden': 'true'});
      swatch.style.background = fill;
      return h('span', {class: 'entry'}, swatch, text);
    };
    if (comparing) {
      replace(this.legend, entry('var(--more)', 'more than before'), entry('var(--same)', 'as before'), entry('var(--less)', 'less than before'),
        h('span', {class: 'hint'}, `Width: mean of both windows. Before: ${describeWindow(this.windows.before!)}, scaled to this window's length.`));
      return;
    }
    const kinds = new Set<Kind>();
    const walk = (node: ViewNode) => { if (node.node > 0) kinds.add(node.kind); node.children?.forEach(walk); };
    if (this.shown) walk(this.shown.root);
    replace(this.legend, ...(Object.keys(kKindNames) as Kind[]).filter((kind) => kinds.has(kind))
      .map((kind) => entry(kindFill(kind, ''), kKindNames[kind])));
  }
}

function emptyMessage(part: Part): HTMLElement {
  const {type} = part.summary;
  const why = type === 'sync' ? 'No thread waited for the GPU in this window.' : type === 'idle' ? 'No device was seen in this window.'
    : 'Nothing ran on the GPU in this window.';
  return h('div', {class: 'nothing'}, h('h3', {}, why),
    h('p', {}, 'The program may be loading, waiting, or working on the CPU. Record a longer window, or record while it is busy.'));
}
