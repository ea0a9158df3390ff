// SPDX-License-Identifier: Apache-2.0
// The thread that holds the profiles: the page stays responsive while a large one is read.
import {Store} from './store';
import type {Answer, Question} from './worker_client';

const store = new Store();

async function gzipped(blob: Blob): Promise<Blob> {
  const stream = blob.stream().pipeThrough(new CompressionStream('gzip'));
  return new Blob([await new Response(stream).blob()], {type: 'application/octet-stream'});
}

async function answer(question: Question): Promise<unknown> {
  switch (question.op) {
    case 'load': return store.load(question.key, question.data);
    case 'flame': return store.flame(question.request);
    case 'save': {
      const blob = store.save(question.key, question.format, question.value);
      return question.format === 'pprof' ? gzipped(blob) : blob;
    }
    case 'drop': return store.drop(question.key);
  }
}

self.onmessage = async (event: MessageEvent<{id: number; question: Question}>) => {
  const {id, question} = event.data;
  let reply: Answer;
  try {
    reply = {id, value: await answer(question)};
  } catch (error) {
    reply = {id, error: error instanceof Error ? error.message : String(error)};
  }
  self.postMessage(reply);
};
