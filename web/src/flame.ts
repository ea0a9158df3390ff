// SPDX-License-Identifier: Apache-2.0
// The flame graph itself: d3-flame-graph lays out and draws; keyboard, names for screen readers and the tip are here.
import flamegraph, {type Chart, type Laid} from 'd3-flame-graph';
import {select} from 'd3-selection';

import {changeFill, kindFill} from './colours';
import type {View, ViewNode} from './view';

type Box = Laid<ViewNode>;

export interface FlameEvents {
  zoom(node: number): void;      // 0: all
  look(node: ViewNode | null): void;
  describe(node: ViewNode): string;
}

export interface FlameLook { icicle: boolean; comparing: boolean; searching: boolean }

export class Flame {
  private chart: Chart<ViewNode> | null = null;
  private look: FlameLook = {icicle: true, comparing: false, searching: false};
  private boxes: {box: Box; element: SVGGElement}[] = [];
  private at: Box | null = null;  // where the keyboard is
  private focus = 0;

  // `host` gets the keyboard; `tip` is shown beside the pointer.
  constructor(private readonly host: HTMLElement, private readonly tip: HTMLElement, private readonly events: FlameEvents) {
    host.tabIndex = 0;
    host.setAttribute('role', 'tree');
    host.addEventListener('keydown', (event) => this.key(event));
    host.addEventListener('focus', () => this.moveTo(this.at ?? this.focused()));
    host.addEventListener('blur', () => this.mark(null));
    // Before the library, which would draw its own zoom first: of the boxes that it has, without what they hold.
    host.addEventListener('click', (event) => {
      const element = (event.target as Element).closest('g.frame');
      const found = this.boxes.find((one) => one.element === element);
      if (!found) return;
      event.stopPropagation();
      this.zoomTo(found.box);
    }, true);
  }

  draw(view: View, focus: number, width: number, look: FlameLook): void {
    this.look = look;
    this.focus = focus;
    if (!this.chart) {
      this.chart = this.make();
      this.chart.width(width).inverted(look.icicle);
      select(this.host).datum(view.root).call(this.chart);
    } else {
      this.chart.width(width).inverted(look.icicle).update(view.root);
    }
    this.name();
    this.at = null;
    if (document.activeElement === this.host) this.moveTo(this.focused());
  }

  private make(): Chart<ViewNode> {
    const tip = Object.assign(() => undefined, {
      show: (event: MouseEvent, box: Box) => this.showTip(event, box),
      hide: () => this.hideTip(),
      destroy: () => undefined,
    });
    return flamegraph<ViewNode>()
      .cellHeight(20)
      .transitionDuration(0)
      .resetHeightOnZoom(true)
      .tooltip(tip)
      .setDetailsHandler(() => undefined)
      .setColorMapper((box) => this.fill(box.data));
  }

  private fill(node: ViewNode): string {
    if (this.look.searching && node.match) return 'var(--match)';
    return this.look.comparing ? changeFill(node) : kindFill(node.kind, node.name);
  }

  // The library draws; what it drew gets its place in the tree for those who do not see it.
  private name(): void {
    this.boxes = [...this.host.querySelectorAll<SVGGElement>('g.frame')].map((element, index) => {
      const box = (element as SVGGElement & {__data__: Box}).__data__;
      element.id = `frame-${index}`;
      element.setAttribute('role', 'treeitem');
      element.setAttribute('aria-level', String(box.depth + 1));
      element.setAttribute('aria-label', this.events.describe(box.data));
      // At once: the library lets new boxes grow, and starts from the width that they have.
      element.querySelector('rect')!.setAttribute('width', element.getAttribute('width')!);
      element.classList.toggle('above', Boolean(box.data.above));
      element.classList.toggle('dim', this.look.searching && !box.data.match);
      return {box, element};
    });
  }

  private zoomTo(box: Box): void {
    this.hideTip();
    if (box.data.node >= 0) this.events.zoom(box.data.node);
  }

  private focused(): Box | null {
    return this.boxes.find(({box}) => box.data.node === this.focus)?.box ?? this.boxes[0]?.box ?? null;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.at ?? this.focused();
    if (!at) return;
    const child = at.children?.reduce<Box | null>((left, one) => (!left || one.x0 < left.x0 ? one : left), null) ?? null;
    const [up, down] = this.look.icicle ? [at.parent, child] : [child, at.parent];
    const to: Record<string, () => void> = {
      ArrowUp: () => this.moveTo(up), ArrowDown: () => this.moveTo(down),
      ArrowLeft: () => this.moveTo(this.beside(at, -1)), ArrowRight: () => this.moveTo(this.beside(at, 1)),
      Home: () => this.moveTo(this.boxes.find(({box}) => box.depth === 0)?.box ?? null),
      Enter: () => this.zoomTo(at), ' ': () => this.zoomTo(at),
      Escape: () => this.events.zoom(0),
      Backspace: () => this.events.zoom(this.boxes.find(({box}) => box.data.node === this.focus)?.box.parent?.data.node ?? 0),
    };
    if (!to[event.key]) return;
    event.preventDefault();
    to[event.key]!();
  }

  private beside(at: Box, step: 1 | -1): Box | null {
    const row = this.boxes.map(({box}) => box).filter((box) => box.depth === at.depth).sort((a, b) => a.x0 - b.x0);
    return row[row.indexOf(at) + step] ?? null;
  }

  private moveTo(box: Box | null): void {
    if (!box) return;
    this.at = box;
    this.mark(box);
    this.events.look(box.data);
  }

  private mark(box: Box | null): void {
    this.host.removeAttribute('aria-activedescendant');
    for (const one of this.boxes) {
      const here = one.box === box;
      one.element.classList.toggle('here', here);
      if (!here) continue;
      this.host.setAttribute('aria-activedescendant', one.element.id);
      one.element.scrollIntoView({block: 'nearest'});
      one.element.parentNode?.append(one.element);  // above its neighbours, so that all of its outline is seen
    }
  }

  private showTip(event: MouseEvent, box: Box): void {
    this.events.look(box.data);
    this.tip.textContent = this.events.describe(box.data);
    this.tip.hidden = false;
    const {offsetWidth, offsetHeight} = this.tip;
    const left = Math.min(event.clientX + 14, window.innerWidth - offsetWidth - 8);
    const below = event.clientY + 18;
    this.tip.style.left = `${Math.max(8, left)}px`;
    this.tip.style.top = `${below + offsetHeight > window.innerHeight ? event.clientY - offsetHeight - 12 : below}px`;
  }

  private hideTip(): void {
    this.tip.hidden = true;
    this.events.look(null);
  }
}
