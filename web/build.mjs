// SPDX-License-Identifier: Apache-2.0
// Bundles the page. Run in the folder that has node_modules, src/ and test/:
//
//   node build.mjs page ROOT OUT    OUT/files.cpp, the page as data; OUT/licenses/, the texts of the packages in it
//   node build.mjs test ROOT OUT    OUT/tests/*.mjs, for node --test and for the browser's test
import {existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';

const [what, root, out] = process.argv.slice(2);
// From where it is run, not from where this file is: the packages are there.
const esbuild = createRequire(path.join(process.cwd(), 'package.json'))('esbuild');

// What to do about each anomaly is written once, in the table of sidecar/README.md: kind -> text.
function adviceFromReadme() {
  const rows = readFileSync(path.join(root, 'sidecar/README.md'), 'utf8').matchAll(
    /^\| `([a-z_]+)` \| [^|]+ \| [^|]* \| ([^|]*) \|$/gm);
  const advice = Object.fromEntries([...rows].map(([, kind, text]) => [kind, text.trim()]));
  if (Object.keys(advice).length < 10) throw new Error('sidecar/README.md: no table of anomalies found');
  return advice;
}

const advice = {
  name: 'advice',
  setup(build) {
    build.onResolve({filter: /^pillion:advice$/}, () => ({path: 'advice', namespace: 'pillion'}));
    build.onLoad({filter: /.*/, namespace: 'pillion'}, () => ({contents: JSON.stringify(adviceFromReadme()), loader: 'json'}));
  },
};

const common = {
  bundle: true,
  format: 'esm',
  target: 'es2022',
  preserveSymlinks: true,
  plugins: [advice],
  logLevel: 'warning',
};

// Folders below node_modules whose files are in the bundle.
function packagesOf(metafile) {
  const found = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const inside = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
    if (inside) found.add(inside[1]);
  }
  return [...found].sort();
}

function writeLicences(packages) {
  const folder = path.join(out, 'licenses');
  rmSync(folder, {recursive: true, force: true});
  mkdirSync(folder, {recursive: true});
  for (const name of packages) {
    const from = path.join('node_modules', name);
    const files = readdirSync(from).filter((file) => /^(licen[cs]e|notice)/i.test(file)).sort();
    if (!files.some((file) => /^licen/i.test(file))) throw new Error(`${name}: no licence text in the package`);
    const {version} = JSON.parse(readFileSync(path.join(from, 'package.json'), 'utf8'));
    const texts = files.map((file) => readFileSync(path.join(from, file), 'utf8').trimEnd());
    writeFileSync(path.join(folder, `npm-${name.replace(/[@/]/g, '-')}`), [`${name} ${version}`, ...texts, ''].join('\n\n'));
  }
}

// Bytes as C++ string literals, which compile fast; octal, because a hexadecimal escape has no end.
function literal(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 4096) {
    let line = '';
    for (const byte of bytes.subarray(at, at + 4096)) {
      const plain = byte >= 32 && byte < 127 && byte !== 34 && byte !== 92 && byte !== 63;  // " \ ?
      line += plain ? String.fromCharCode(byte) : '\\' + byte.toString(8).padStart(3, '0');
    }
    lines.push(`"${line}"`);
  }
  return lines.join('\n');
}

function cxx(files) {
  const rows = files.map(
    ({url, type, bytes}) => `    {"${url}", "${type}", std::string_view(\n${literal(bytes)},\n${bytes.length})},`);
  return `// Made by web/build.mjs.
#include "web/files.h"

namespace pillion::web {

std::span<const http::StaticFile> files() {
  static constexpr http::StaticFile kFiles[] = {
${rows.join('\n')}
  };
  return kFiles;
}

}  // namespace pillion::web
`;
}

async function page() {
  const built = await esbuild.build({
    ...common,
    entryPoints: {page: 'src/main.ts', worker: 'src/worker.ts'},
    outdir: '/web',
    write: false,
    minify: true,
    metafile: true,
  });
  const types = {'.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8'};
  const file = (url, type, bytes) => ({url, type, bytes});
  const files = [
    file('/', 'text/html; charset=utf-8', readFileSync('src/index.html')),
    file('/web/icon.svg', 'image/svg+xml', readFileSync('src/icon.svg')),
    ...built.outputFiles.map((one) =>
      file(`/web/${path.basename(one.path)}`, types[path.extname(one.path)], Buffer.from(one.contents))),
  ];
  writeLicences(packagesOf(built.metafile));
  writeFileSync(path.join(out, 'files.cpp'), cxx(files));
  for (const {url, bytes} of files) console.log(`${url} ${(bytes.length / 1024).toFixed(1)} KiB`);
}

async function tests() {
  const entries = readdirSync('test').filter((name) => /\.(test|browser)\.ts$/.test(name));
  await esbuild.build({
    ...common,
    platform: 'node',
    entryPoints: entries.map((name) => `test/${name}`),
    outdir: path.join(out, 'tests'),
    outExtension: {'.js': '.mjs'},
    external: ['playwright-core'],
    sourcemap: 'inline',
  });
}

if (!root || !out || !existsSync('node_modules')) throw new Error('usage, in the folder of node_modules: build.mjs page|test ROOT OUT');
await (what === 'page' ? page() : tests());
