// SPDX-License-Identifier: Apache-2.0
// What of a tree is drawn: the part below the focus, without what would be narrower than a pixel.
import type {Kind, NameTable} from './names';
import type {StackTree} from './tree';

export interface ViewNode {
  node: number;       // number in the tree; -1: several that are too narrow to be drawn
  name: string;
  kind: Kind;
  value: number;      // the width
  after: number;      // what is shown; equal to value unless two windows are compared
  before?: number;    // comparing: the other window's, scaled to this one's length
  self: number;
  place: string;
  match?: boolean;    // searching
  above?: boolean;    // holds the focus: as wide as it
  children?: ViewNode[];
}

export interface ViewRequest {
  focus: number;      // node of the tree; 0: all
  width: number;      // pixels
  limit: number;      // most boxes
  least: number;      // pixels of the narrowest box
  search: string;
}

export interface View {
  root: ViewNode;
  total: number;      // of the whole profile
  boxes: number;
  folded: number;     // frames that are drawn together with others
  matched: number | null;  // share of what is shown, of the focus, that the search found
}

export interface Weighed { after: Float64Array; before: Float64Array | null }

// Substring, or a regular expression between slashes. null: nothing is searched; throws on a bad expression.
export function matcher(search: string): ((name: string) => boolean) | null {
  const text = search.trim();
  if (text === '') return null;
  const pattern = /^\/(.+)\/([i]?)$/.exec(text);
  if (pattern) {
    const expression = new RegExp(pattern[1]!, pattern[2]);
    return (name) => expression.test(name);
  }
  const lower = text.toLowerCase();
  return (name) => name.toLowerCase().includes(lower);
}

function matchingNames(table: NameTable, search: string): Uint8Array | null {
  const matches = matcher(search);
  if (!matches) return null;
  return Uint8Array.from(table.names, (name) => (matches(name) ? 1 : 0));
}

export function makeView(tree: StackTree, table: NameTable, weighed: Weighed, request: ViewRequest, all: string): View {
  const {after, before} = weighed;
  // Comparing, a box is as wide as the mean of both, so that what is gone can be seen as well.
  const width = before ? after.map((value, node) => (value + before[node]!) / 2) : after;
  const found = matchingNames(table, request.search);
  const whole = width[request.focus] || 0;
  let least = (whole * request.least) / Math.max(1, request.width);
  while (countAtLeast(tree, width, request.focus, least) > request.limit) least *= 1.5;

  let boxes = 0;
  let folded = 0;
  const box = (node: number): ViewNode => {
    boxes++;
    const name = tree.name[node]!;
    const made: ViewNode = {
      node, value: width[node]!, after: after[node]!, self: 0,
      name: node === 0 ? all : table.names[name]!, kind: node === 0 ? 'group' : table.kinds[name]!,
      place: node === 0 ? '' : table.places[name]!,
    };
    if (before) made.before = before[node]!;
    if (found && node !== 0) made.match = found[name] === 1;
    return made;
  };
  const grown = (node: number): ViewNode => {
    const made = box(node);
    const children: ViewNode[] = [];
    let inside = 0;
    let rest = 0;
    let restAfter = 0;
    let restBefore = 0;
    let narrow = 0;
    for (let child = tree.firstChild[node]!; child !== -1; child = tree.nextSibling[child]!) {
      inside += after[child]!;
      if (width[child]! >= least && width[child]! > 0) {
        children.push(grown(child));
      } else if (width[child]! > 0) {
        narrow++;
        rest += width[child]!;
        restAfter += after[child]!;
        restBefore += before ? before[child]! : 0;
      }
    }
    children.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
    folded += narrow;
    if (narrow > 0 && rest >= least) {
      boxes++;
      const together: ViewNode = {node: -1, name: `${narrow} narrow frames`, kind: 'note', value: rest, after: restAfter, self: 0, place: ''};
      if (before) together.before = restBefore;
      children.push(together);
    }
    made.self = Math.max(0, after[node]! - inside);
    if (children.length > 0) made.children = children;
    return made;
  };

  let root = grown(request.focus);
  const path = request.focus === 0 ? [] : [0, ...tree.pathTo(request.focus).slice(0, -1)];
  for (const node of path.reverse()) {
    const holder = box(node);
    holder.above = true;
    holder.value = root.value;
    holder.children = [root];
    root = holder;
  }
  return {
    root, boxes, folded, total: after[0]!,
    matched: found && whole > 0 ? matchedWidth(tree, width, found, request.focus) / whole : found ? 0 : null,
  };
}

function countAtLeast(tree: StackTree, width: Float64Array, focus: number, least: number): number {
  let count = 0;
  const open = [focus];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    count++;
    for (let child = tree.firstChild[node]!; child !== -1; child = tree.nextSibling[child]!) {
      if (width[child]! >= least && width[child]! > 0) open.push(child);
    }
  }
  return count;
}

// A match below a match counts once.
function matchedWidth(tree: StackTree, width: Float64Array, found: Uint8Array, focus: number): number {
  let sum = 0;
  const open = [focus];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (node !== 0 && found[tree.name[node]!] === 1) {
      sum += width[node]!;
      continue;
    }
    for (let child = tree.firstChild[node]!; child !== -1; child = tree.nextSibling[child]!) open.push(child);
  }
  return sum;
}
