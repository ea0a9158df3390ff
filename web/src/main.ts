// SPDX-License-Identifier: Apache-2.0
import './page.css';

import {byId, h, replace} from './dom';
import {firstSettings} from './flame_panel';
import {clock, duration, plural} from './format';
import type {Status} from './profile';
import {failureNotices, notice, Recorder, type Recorded} from './record';
import {Result} from './result';
import {fetchStatus, wordsOf} from './server';
import {setUpTheme} from './theme';
import {describeWindow, titleOf, Windows, type Part} from './windows';
import {WorkerClient} from './worker_client';

const kStatusEveryMs = 3000;

const worker = new WorkerClient();
const windows = new Windows();
const result = new Result(byId('result'), windows, worker, firstSettings());
const recorder = new Recorder(worker, take);

function take(recorded: Recorded): void {
  if (recorded.parts.length === 0) {
    replace(byId('notices'), ...failureNotices(recorded.failed));
    return;
  }
  forget(windows.add(recorded.title, recorded.parts, recorded.failed));
  draw();
}

function forget(parts: Part[]): void {
  for (const part of parts) void worker.drop(part.key);
}

function draw(): void {
  const list = byId('windows');
  list.hidden = windows.all.length === 0;
  replace(list, ...windows.all.map((window) => {
    const first = window.parts[0]!.summary;
    const current = window === windows.current;
    return h('span', {class: current ? 'chip current' : 'chip'},
      h('button', {type: 'button', 'aria-pressed': String(current), title: describeWindow(window), click: () => { windows.show(window); draw(); }},
        h('strong', {}, `#${window.id}`), ` ${window.title} `, h('span', {class: 'hint'}, `${duration(first.durationNs)} · ${clock(first.startUnixNs)} · ${window.parts.map((part) => part.summary.type).join('+')}`)),
      h('button', {type: 'button', class: 'quiet', 'aria-label': `Forget window ${window.id}`, click: () => { forget(windows.remove(window)); draw(); }}, '✕'));
  }));
  list.querySelector('.current')?.scrollIntoView({block: 'nearest', inline: 'nearest'});
  result.draw();
}

let opened = 0;
async function open(files: Iterable<File>): Promise<void> {
  for (const file of files) {
    const key = `file-${++opened}`;
    try {
      const summary = await worker.load(key, await file.arrayBuffer());
      forget(windows.add(`${file.name}: ${titleOf(summary)}`, [{key, summary}], []));
    } catch (error) {
      byId('notices').append(notice({...wordsOf(error), title: file.name}));
    }
  }
  draw();
}

function setUpOpening(): void {
  const input = byId<HTMLInputElement>('file');
  byId('open').onclick = () => input.click();
  input.onchange = () => {
    void open([...(input.files ?? [])]);
    input.value = '';
  };
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = (event) => {
    event.preventDefault();
    void open([...(event.dataTransfer?.files ?? [])]);
  };
}

function say(tone: string, text: string, title = ''): void {
  const state = byId('state');
  if (state.textContent === text && state.className === `state ${tone}`) return;
  state.className = `state ${tone}`;
  state.textContent = text;
  state.title = title;
}

function showStatus(status: Status): void {
  recorder.update(status);
  result.attached(status);
  const attached = status.processes.length;
  if (attached > 0) {
    const armed = status.processes.filter((process) => process.state === 'armed').length;
    say('good', `${plural(attached, 'process', 'processes')} attached${armed > 0 ? ', recording' : ''}`,
      status.processes.map(({comm, pid, state}) => `${comm} (${pid}): ${state}`).join('\n'));
  } else {
    say('bad', 'no program is attached', status.socket_directory ? `looking in ${status.socket_directory.path}` : '');
  }
}

async function follow(): Promise<void> {
  if (document.visibilityState === 'visible') {
    try {
      showStatus(await fetchStatus());
    } catch (error) {
      say('bad', 'pillion does not answer', wordsOf(error).text);
    }
  }
  setTimeout(() => void follow(), kStatusEveryMs);
}

setUpTheme(byId<HTMLButtonElement>('theme'));
setUpOpening();
draw();
void follow();
