// SPDX-License-Identifier: Apache-2.0
// Opens files in speedscope, as it is published, in Chromium, and saves what it took from each: Ctrl+S exports the
// profile in its own format. tests/integration/test_speedscope.py runs it:
//
//   node speedscope.browser.mjs FOLDER FILE...     FOLDER/FILE.speedscope.json and FOLDER/FILE.png for each
import assert from 'node:assert/strict';
import {createReadStream, existsSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import type {AddressInfo} from 'node:net';
import path from 'node:path';

import {chromium} from 'playwright-core';

const [folder, ...files] = process.argv.slice(2) as [string, ...string[]];
const speedscope = path.join(
  path.dirname(createRequire(path.join(process.cwd(), 'package.json')).resolve('speedscope/package.json')), 'dist/release');

// speedscope's files below /, those to open below /open/.
const server = createServer((request, response) => {
  const {pathname} = new URL(request.url!, 'http://localhost');
  const name = path.basename(pathname) || 'index.html';
  const file = pathname.startsWith('/open/') ? path.join(folder, name) : path.join(speedscope, name);
  if (!existsSync(file)) { response.writeHead(404).end(); return; }
  if (name === 'index.html') response.setHeader('Content-Type', 'text/html');
  createReadStream(file).pipe(response);
});
await new Promise<void>((done) => { server.listen(0, '127.0.0.1', done); });
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const browser = await chromium.launch({executablePath: process.env.PILLION_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']});
try {
  for (const file of files) {
    const page = await browser.newPage({viewport: {width: 1200, height: 700}, acceptDownloads: true});
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on('dialog', (dialog) => { errors.push(dialog.message()); void dialog.dismiss(); });
    await page.goto(`${address}/#profileURL=${encodeURIComponent(`${address}/open/${file}`)}`);
    await page.waitForFunction((name) => document.title.includes(name), file, {timeout: 15_000});
    await page.screenshot({path: path.join(folder, `${file}.png`)});
    const saved = page.waitForEvent('download', {timeout: 15_000});
    await page.keyboard.press('Control+s');
    await (await saved).saveAs(path.join(folder, `${file}.speedscope.json`));
    assert.deepEqual(errors, [], file);
    await page.close();
  }
} finally {
  await browser.close();
  server.close();
}
