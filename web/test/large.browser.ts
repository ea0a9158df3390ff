// SPDX-License-Identifier: Apache-2.0
// How long a large profile takes in the page, and how long the page does not answer meanwhile.
//
//   node large.browser.mjs URL FOLDER [STACKS]     the last line is JSON
import path from 'node:path';

import {chromium} from 'playwright-core';

import {writeLarge} from './large_profile';

const [url, folder, stacks] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4] ?? 1_000_000)];
const file = path.join(folder, `large-${stacks}.json`);
await writeLarge(file, {stacks, depth: 20, functions: 4000, kernels: 200});

const browser = await chromium.launch({executablePath: process.env.PILLION_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']});
try {
  const page = await browser.newPage({viewport: {width: 1400, height: 1000}});
  page.on('pageerror', (error) => console.error(error));
  await page.goto(url);
  // The longest time between two turns of the page's own loop.
  await page.evaluate(() => {
    const state = window as unknown as {longest: number};
    state.longest = 0;
    let last = performance.now();
    new MessageChannel();
    const turn = () => {
      const now = performance.now();
      state.longest = Math.max(state.longest, now - last);
      last = now;
      setTimeout(turn, 0);
    };
    turn();
  });
  const longest = () => page.evaluate(() => {
    const state = window as unknown as {longest: number};
    const value = state.longest;
    state.longest = 0;
    return Math.round(value);
  });
  const timed = async (name: string, action: () => Promise<unknown>) => {
    const before = await page.getAttribute('.flame', 'data-draws').catch(() => null);
    const start = Date.now();
    await action();
    await page.waitForFunction((old) => {
      const now = document.querySelector<HTMLElement>('.flame')?.dataset.draws;
      return now !== undefined && now !== old;
    }, before, {timeout: 60_000});
    const ms = Date.now() - start;
    figures[name] = {ms, longest_block_ms: await longest(), inside: await page.getAttribute('.flame', 'data-ms'), boxes: Number(await page.getAttribute('.flame', 'data-boxes'))};
  };
  const figures: Record<string, unknown> = {stacks};
  page.setDefaultTimeout(60_000);
  await longest();
  const start = Date.now();
  await page.setInputFiles('#file', file);
  await page.waitForSelector('.flame[data-draws]', {timeout: 60_000});
  figures.open = {ms: Date.now() - start, longest_block_ms: await longest(), inside: await page.getAttribute('.flame', 'data-ms'), boxes: Number(await page.getAttribute('.flame', 'data-boxes'))};
  await timed('search', () => page.fill('#search', 'method_3'));
  await timed('zoom', () => page.locator('g.frame').nth(3).click({position: {x: 5, y: 5}}));
  await timed('leaf_first', () => page.selectOption('#order', 'leaf').then(() => undefined));
  await page.screenshot({path: path.join(folder, 'large.png')});
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
}
