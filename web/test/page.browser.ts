// SPDX-License-Identifier: Apache-2.0
// The page as a person uses it, in Chromium, on a real server. tests/integration/test_page.py runs it:
//
//   node page.browser.mjs URL FOLDER
//
// A line "do: WHAT" on stdout asks the test to do something, which answers with a line. Screenshots and what was saved
// come into FOLDER. The last line is JSON: figures.
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {createInterface} from 'node:readline';

import {chromium, type Page} from 'playwright-core';

const [url, folder] = [process.argv[2]!, process.argv[3]!];
const figures: Record<string, unknown> = {};
const started = Date.now();

const answers = createInterface({input: process.stdin})[Symbol.asyncIterator]();
async function ask(what: string): Promise<string> {
  console.log(`do: ${what}`);
  return (await answers.next()).value as string;
}

const browser = await chromium.launch({executablePath: process.env.PILLION_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']});
const context = await browser.newContext({viewport: {width: 1400, height: 950}, colorScheme: 'light', acceptDownloads: true});
const page = await context.newPage();
page.setDefaultTimeout(10_000);
const foreign: string[] = [];
const errors: string[] = [];
page.on('request', (request) => { if (!request.url().startsWith(url) && !request.url().startsWith(`blob:${url}`)) foreign.push(request.url()); });
page.on('pageerror', (error) => errors.push(String(error)));
// A refused type and a server that is gone are in the console as well; what the policy blocks is an error.
page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) errors.push(message.text()); });

let shots = 0;
const shot = (name: string) => page.screenshot({path: path.join(folder, `${String(++shots).padStart(2, '0')}-${name}.png`), fullPage: true});
const text = async (selector: string) => (await page.textContent(selector)) ?? '';
const flame = page.locator('.flame');
const frame = (name: string) => page.locator(`g.frame[aria-label^="${name}"]`);

// Waits until the flame graph was drawn again after the action.
async function redrawn(action: () => Promise<unknown>): Promise<void> {
  const before = await flame.getAttribute('data-draws').catch(() => null);
  await action();
  await page.waitForFunction((old) => { const now = document.querySelector<HTMLElement>('.flame')?.dataset.draws; return now !== undefined && now !== old; }, before);
}

async function record(window: number): Promise<void> {
  await page.click('#start');
  await page.locator('[role=progressbar]').waitFor();
  await page.locator(`.chip.current:has-text("#${window}")`).waitFor();
  await page.locator('.flame[data-draws]').waitFor();
}

async function accessible(of: Page, where: string): Promise<void> {
  const source = readFileSync(createRequire(path.join(process.cwd(), 'package.json')).resolve('axe-core/axe.min.js'), 'utf8');
  await of.evaluate(source);  // by the debugger: the page's policy would not let it in
  const found = await of.evaluate(async () => {
    const {violations} = await (window as unknown as {axe: {run(options: object): Promise<{violations: {id: string; impact: string; nodes: {html: string; failureSummary: string}[]}[]}>}}).axe.run(
      {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']});
    return violations.map(({id, impact, nodes}) => `${id} (${impact}): ${nodes.length}, ${nodes[0]!.html.slice(0, 200)} ${nodes[0]!.failureSummary}`);
  });
  assert.deepEqual(found, [], where);
}

const steps: Record<string, () => Promise<void>> = {
  async 'opened with a token in its address'() {
    const other = await context.newPage();
    await other.goto(url.replace('://', '://pillion:0123456789abcdef@'));
    await other.locator('h2:has-text("No program is attached")').waitFor();
    await other.close();
  },

  async 'nothing is attached'() {
    await page.goto(url);
    await page.locator('h2:has-text("No program is attached")').waitFor();
    await shot('nobody');
    await page.fill('#seconds', '1');
    await page.click('#start');
    assert.match(await text('.notice'), /no_shim.*no shim is attached/s);
    await shot('no-shim');
    await accessible(page, 'nobody');
    await page.click('.notice button');
    assert.equal(await page.locator('.notice').count(), 0);
  },

  async 'a program comes, and the page sees it'() {
    figures.pids = await ask('start the programs');
    await page.locator('.state.good').waitFor();
    await page.waitForFunction(() => document.querySelectorAll('#process option').length === 3);
    await page.locator('h2:has-text("No window yet")').waitFor();
    await shot('ready');
  },

  async 'a window of three types'() {
    await page.click('[data-type=sync]');
    await page.fill('#seconds', '2');
    await page.click('#start');
    const bar = page.locator('[role=progressbar]');
    await bar.waitFor();
    assert.equal(await page.isDisabled('#start'), true);
    await page.waitForFunction(() => Number(document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow')) >= 1);
    await shot('recording');
    await page.locator('.chip.current:has-text("#1")').waitFor();
    await page.locator('.flame[data-draws]').waitFor();
    assert.match(await text('.chip'), /gpu\+idle\+sync/);
    assert.equal(await page.isDisabled('#start'), false);
    assert.match(await text('.legend'), /Python.*Native.*CUDA call.*GPU kernel.*Copy or set/);
    assert.ok(await frame('Model.backward').count() > 0);
    await shot('flame');
    await accessible(page, 'flame');
  },

  async 'zoom, by mouse'() {
    await frame('Model.backward').first().hover();
    assert.match(await text('.tip'), /Model.backward.*of GPU time/s);
    await redrawn(() => frame('Model.backward').first().click());
    assert.equal(await frame('Model.forward').count(), 0);
    const width = (name: string) => frame(name).first().evaluate((element) => element.getBoundingClientRect().width);
    assert.ok(Math.abs(await width('Model.backward') - await width('all')) < 2);
    await shot('zoomed');
    await redrawn(() => page.click('text=Reset zoom'));
    assert.ok(await frame('Model.forward').count() > 0);
  },

  async 'search'() {
    await redrawn(() => page.fill('#search', 'backward'));
    assert.match(await text('.matched'), /^[1-9][0-9.]* % matched$/);
    const fill = (name: string) => frame(name).first().locator('rect').getAttribute('fill');
    assert.equal(await fill('Model.backward'), 'var(--match)');
    assert.notEqual(await fill('Model.forward'), 'var(--match)');
    await shot('search');
    await page.fill('#search', '/(/');
    await page.locator('.message:has-text("regular expression")').waitFor();
    await redrawn(() => page.fill('#search', '/^Layer\\.(forward|backward)/'));
    await redrawn(() => page.fill('#search', ''));
    assert.equal(await text('.matched'), '');
  },

  async 'keyboard'() {
    await flame.focus();
    const here = () => page.locator('g.here').getAttribute('aria-label');
    assert.match((await here())!, /^all/);
    for (let i = 0; i < 12 && !/^train/.test((await here())!); i++) await page.keyboard.press('ArrowDown');
    assert.match((await here())!, /^train/);
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowDown');
    await redrawn(() => page.keyboard.press('Enter'));
    assert.match((await here())!, /^train/);
    assert.equal(await flame.getAttribute('aria-activedescendant'), await page.locator('g.here').getAttribute('id'));
    await page.keyboard.press('ArrowDown');
    const first = await here();
    await page.keyboard.press('ArrowRight');
    assert.notEqual(await here(), first);
    await page.keyboard.press('ArrowLeft');
    assert.equal(await here(), first);
    await shot('keyboard');
    await redrawn(() => page.keyboard.press('Backspace'));
    await redrawn(() => page.keyboard.press('Escape'));
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'search');
    await page.focus('#tab-flame');
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'tab-kernels-gpu');
    assert.equal(await page.locator('#panel-kernels-gpu').isVisible(), true);
    await page.keyboard.press('Home');
    assert.equal(await flame.isVisible(), true);
  },

  async 'other ways round'() {
    await redrawn(() => page.selectOption('#order', 'leaf'));
    const below = () => page.locator('g.frame[aria-level="2"]').evaluateAll((elements) => elements.map((element) => element.getAttribute('aria-label')!));
    assert.ok((await below()).some((label) => label.startsWith('conv2d(float*')), String(await below()));
    await redrawn(() => page.selectOption('#shape', 'flame'));
    await redrawn(() => page.selectOption('#order', 'caller'));
    await redrawn(() => page.selectOption('#group', 'thread'));
    assert.ok((await below()).every((label) => /^thread \d+ \w+, (python3|launch_loop) \(\d+\)/.test(label)), String(await below()));
    await redrawn(() => page.check('#lines'));
    assert.ok(await frame('train (training.py:').count() > 0);
    await shot('upwards');
    await redrawn(() => page.uncheck('#lines'));
    await redrawn(() => page.selectOption('#group', 'none'));
    await redrawn(() => page.selectOption('#shape', 'icicle'));
    await redrawn(() => page.selectOption('#value', 'idle/gpu_idle_ns'));
    assert.match(await text('.legend'), /Idle: /);
    await shot('idle');
    await redrawn(() => page.selectOption('#value', 'gpu/gpu_time_ns'));
  },

  async 'kernels'() {
    await page.click('#tab-kernels-gpu');
    const names = () => page.locator('#panel-kernels-gpu tbody tr td:first-child').allTextContents();
    const byTime = await names();
    assert.ok(byTime.length >= 9, String(byTime));
    await shot('kernels');
    const count = page.locator('#panel-kernels-gpu th:has-text("Count")');
    await count.locator('button').click();
    assert.equal(await count.getAttribute('aria-sort'), 'descending');
    const numbers = (await page.locator('#panel-kernels-gpu tbody tr td:nth-child(4)').allTextContents()).map((cell) => Number(cell.replaceAll(',', '')));
    assert.deepEqual(numbers, [...numbers].sort((a, b) => b - a));
    await page.locator('#panel-kernels-gpu th:has-text("Kernel") button').click();
    assert.deepEqual(await names(), [...byTime].sort((a, b) => a.localeCompare(b)));
    await page.fill('#panel-kernels-gpu .filter', 'softmax');
    assert.deepEqual((await names()).map((name) => name.replace(/\(.*/, '')), ['softmax_online']);
    assert.match(await text('#panel-kernels-gpu tbody tr td:last-child'), /Gpu\.launch training\.py:\d+called by Layer\.(forward|backward) training\.py/);
    await page.click('#panel-kernels-gpu tbody button');
    await page.locator('.flame[data-draws]').waitFor();
    assert.match(await page.inputValue('#search'), /^softmax_online/);
    assert.match(await text('.matched'), /matched/);
    await redrawn(() => page.fill('#search', ''));
  },

  async 'busy and idle, latency, quality'() {
    await page.click('#tab-devices');
    const shares = (await page.locator('.device tbody tr td:nth-child(3)').allTextContents()).map((cell) => parseFloat(cell.replace('< ', '')));
    assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100) < 0.5, String(shares));
    await shot('devices');
    await page.click('#tab-latency');
    assert.ok(await page.locator('#panel-latency svg.histogram rect').count() > 10);
    await shot('latency');
    await page.click('#tab-kernels-sync');
    assert.match(await text('#panel-kernels-sync'), /cuStreamSynchronize/);
    await page.click('#tab-quality');
    await page.locator('#panel-quality details summary').click();
    await shot('quality');
    await accessible(page, 'quality');
  },

  async 'saving'() {
    for (const format of ['pprof', 'json', 'folded']) {
      const [download] = await Promise.all([page.waitForEvent('download'), page.click(`[data-format=${format}]`)]);
      assert.match(download.suggestedFilename(), /^pillion-gpu-\d{6}\.(pb\.gz|json|folded)$/);
      await download.saveAs(path.join(folder, `saved.${format}`));
    }
    await page.selectOption('#save-type', {label: 'idle'});
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[data-format=pprof]')]);
    await download.saveAs(path.join(folder, 'saved.idle'));
  },

  async 'comparing'() {
    await page.click('#tab-flame');
    await page.selectOption('#process', {label: (await page.locator('#process option').allTextContents()).find((option) => option.startsWith('python3'))!});
    await record(2);
    await redrawnByCompare();
    assert.match(await text('.legend'), /more than before.*less than before/s);
    assert.match((await frame('all').getAttribute('aria-label'))!, /before .*change/s);
    await shot('compared');
    await page.click('#tab-kernels-gpu');
    assert.match((await page.locator('#panel-kernels-gpu th').allTextContents()).join(), /Change/);
    assert.match(await text('#panel-kernels-gpu'), /axpy.*−/s);  // of the program that is not in this window
    await shot('kernels-compared');
    await page.click('.chip button:has-text("#1")');
    await page.locator('.chip.current:has-text("#1")').waitFor();
    await page.click('#tab-flame');
  },

  async 'light and dark'() {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.click('#theme');
    assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
    assert.notEqual(await ground(), light);
    await shot('dark');
    await accessible(page, 'dark');
    const other = await context.newPage();
    await other.emulateMedia({colorScheme: 'light'});
    await other.goto(url);
    assert.equal(await other.getAttribute('html', 'data-theme'), 'dark');  // it was chosen
    await other.close();
    await page.click('#theme');
    assert.equal(await ground(), light);
  },

  async 'a type that is not taken here'() {
    await page.click('.others summary');
    await page.click('[data-type=offcpu]');
    await page.fill('#seconds', '1');
    await record(3);
    assert.match(await text('.notice'), /offcpu: 501 not_available.*this build takes no offcpu profile/s);
    await shot('not-taken');
    await page.click('[data-type=offcpu]');
  },

  async 'cancelling'() {
    await page.fill('#seconds', '600');
    await page.click('#start');
    await page.locator('[role=progressbar]').waitFor();
    await page.click('#cancel');
    await page.locator('[role=progressbar]').waitFor({state: 'hidden'});
    await page.waitForFunction(async () => (await (await fetch('/status')).json()).http.windows_running === 0);
    assert.equal(await page.locator('.chip').count(), 3);
  },

  async 'files, and names that are markup'() {
    await page.setInputFiles('#file', path.join(folder, 'saved.json'));
    await page.locator('.chip.current:has-text("saved.json")').waitFor();
    await page.locator('.flame[data-draws]').waitFor();
    assert.ok(await frame('Model.backward').count() > 0);
    const evil = JSON.parse(readFileSync(path.join(folder, 'saved.json'), 'utf8'));
    const name = '<img src=x onerror="document.title=1"><script>document.title=1</script>';
    for (const one of evil.frames) one.lines[0].function = name;
    for (const one of evil.kernels) one.name = name;
    evil.processes[0].comm = name;
    evil.quality.anomalies = [{kind: 'cupti_dropped', total: 7, meaning: name, detail: name}, {kind: 'a_new_kind', total: 1, meaning: 'of a later server'}];
    writeFileSync(path.join(folder, 'evil.json'), JSON.stringify(evil));
    await page.setInputFiles('#file', path.join(folder, 'evil.json'));
    await page.locator('.chip.current:has-text("evil.json")').waitFor();
    await page.locator('.flame[data-draws]').waitFor();
    await page.click('#tab-quality');
    assert.match(await text('.troubles'), /What to do: free memory in the workload/);
    await shot('problems');
    await page.click('#tab-kernels-gpu');
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.equal(await page.title(), 'Pillion');
    await page.setInputFiles('#file', {name: 'page.html', mimeType: 'text/html', buffer: Buffer.from('<html>')});
    await page.locator('.notice:has-text("This is not JSON")').waitFor();
    await page.click('#tab-flame');
  },

  async 'a small screen'() {
    await page.click('.chip button:has-text("#1")');
    await page.setViewportSize({width: 420, height: 800});
    for (const tab of await page.locator('[role=tab]').all()) {
      await tab.click();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, await tab.textContent() ?? '');
    }
    await page.click('#tab-flame');
    await page.waitForFunction(() => document.querySelector('.flame svg')!.getBoundingClientRect().width < 420);
    await shot('small');
    await page.setViewportSize({width: 1400, height: 950});
  },

  async 'the server goes'() {
    await ask('stop the server');
    await page.locator('.state.bad:has-text("does not answer")').waitFor();
    await page.click('#start');
    await page.locator('.notice:has-text("pillion does not answer")').waitFor();
    assert.ok(await frame('Model.backward').count() > 0);  // what was recorded is still there
    await shot('gone');
  },
};

async function redrawnByCompare(): Promise<void> {
  await page.selectOption('#compare', {index: 1});
  await page.locator('.legend:has-text("more than before")').waitFor();
}

try {
  for (const [name, step] of Object.entries(steps)) {
    const start = Date.now();
    try {
      await step();
    } catch (error) {
      await shot('failed').catch(() => undefined);
      throw new Error(`${name}: ${error instanceof Error ? error.stack : error}\nin the console: ${errors.join('; ')}`);
    }
    console.log(`ok: ${name} (${Date.now() - start} ms)`);
  }
  assert.deepEqual(foreign, [], 'requests to elsewhere');
  assert.deepEqual(errors, [], 'errors in the console');
  figures.seconds = (Date.now() - started) / 1000;
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
}
process.exit(0);
