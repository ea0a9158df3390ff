// SPDX-License-Identifier: Apache-2.0
// Elements, made from text: nothing that a profile says becomes markup.

type Child = Node | string | null | false | undefined;
type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

export function h<Name extends keyof HTMLElementTagNameMap>(name: Name, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  apply(element, attributes);
  append(element, children);
  return element;
}

const kSvg = 'http://www.w3.org/2000/svg';

export function s(name: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(kSvg, name) as SVGElement;
  apply(element, attributes);
  append(element, children);
  return element;
}

function apply(element: Element, attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key, value as EventListener);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) if (child) element.append(child);
}

export function byId<Type extends HTMLElement>(id: string): Type {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no #${id}`);
  return element as Type;
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
}

// `code` between backticks.
export function withCode(text: string): Node[] {
  return text.split('`').map((part, index) => (index % 2 === 1 ? h('code', {}, part) : document.createTextNode(part)));
}

// Offers the bytes to be saved under this name.
export function saveAs(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = h('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
