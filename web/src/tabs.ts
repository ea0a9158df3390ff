// SPDX-License-Identifier: Apache-2.0
// Tabs, as the ARIA practices have them: arrows move and show, Home and End go to the ends.
import {h} from './dom';

export interface Tab { id: string; title: string; badge?: string; tone?: 'bad'; panel: HTMLElement; shown?: () => void }

export function makeTabs(label: string, tabs: Tab[], selected: string, onSelect: (id: string) => void): HTMLElement {
  const buttons = tabs.map((tab) => h('button', {type: 'button', role: 'tab', id: `tab-${tab.id}`, 'aria-controls': `panel-${tab.id}`},
    tab.title, tab.badge ? h('span', {class: tab.tone ? `badge ${tab.tone}` : 'badge'}, tab.badge) : null));
  const panels = tabs.map((tab) => h('div', {role: 'tabpanel', id: `panel-${tab.id}`, 'aria-labelledby': `tab-${tab.id}`, class: 'panel'}, tab.panel));
  const select = (index: number, focus: boolean) => {
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === index));
      button.tabIndex = i === index ? 0 : -1;
      panels[i]!.hidden = i !== index;
    });
    if (focus) buttons[index]!.focus();
    onSelect(tabs[index]!.id);
    tabs[index]!.shown?.();
  };
  buttons.forEach((button, index) => {
    button.onclick = () => select(index, false);
    button.onkeydown = (event) => {
      const last = tabs.length - 1;
      const to = {ArrowRight: index === last ? 0 : index + 1, ArrowLeft: index === 0 ? last : index - 1, Home: 0, End: last}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(to, true);
    };
  });
  const root = h('div', {class: 'tabs'}, h('div', {role: 'tablist', 'aria-label': label, class: 'tablist'}, ...buttons), ...panels);
  // Once it is in the document, where panels have a width.
  queueMicrotask(() => select(Math.max(0, tabs.findIndex((tab) => tab.id === selected)), false));
  return root;
}
