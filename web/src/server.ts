// SPDX-License-Identifier: Apache-2.0
// What the page asks the server.
import type {Status} from './profile';

// The server's own words: {"error":{code, message, hint}}.
export class ServerError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly hint: string) { super(message); }
}

// Absolute: the page may have been opened as http://pillion:TOKEN@HOST, and fetch refuses what is relative to that.
const absolute = (path: string) => new URL(path, location.origin);

export async function fetchStatus(): Promise<Status> {
  const response = await fetch(absolute('/status'), {cache: 'no-store'});
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as Status;
}

export interface WindowRequest { type: string; seconds: number; pid: number | null }

export function profileUrl(request: WindowRequest, format: string): string {
  const query = new URLSearchParams({seconds: String(request.seconds)});
  if (request.type !== 'gpu') query.set('type', request.type);
  if (request.pid !== null) query.set('pid', String(request.pid));
  if (format !== 'pprof') query.set('format', format);
  return `/profile?${query}`;
}

// Takes as long as the window. Aborting hangs up, which ends the window.
export async function fetchProfile(request: WindowRequest, signal: AbortSignal): Promise<ArrayBuffer> {
  const response = await fetch(absolute(profileUrl(request, 'json')), {cache: 'no-store', signal});
  if (!response.ok) throw await errorOf(response);
  return response.arrayBuffer();
}

async function errorOf(response: Response): Promise<ServerError> {
  const text = await response.text();
  try {
    const {code, message, hint} = (JSON.parse(text) as {error: {code: string; message: string; hint: string}}).error;
    return new ServerError(response.status, code, message, hint);
  } catch {
    return new ServerError(response.status, 'unknown', text.trim() || response.statusText, '');
  }
}

// What a person is told of an error.
export function wordsOf(error: unknown): {title: string; text: string; hint: string} {
  if (error instanceof ServerError) return {title: `${error.status} ${error.code}`, text: error.message, hint: error.hint};
  if (error instanceof TypeError) {
    return {title: 'No answer', text: 'pillion does not answer: it has ended, or the port-forward has.', hint: 'Start it again, then reload this page.'};
  }
  return {title: 'Not possible', text: error instanceof Error ? error.message : String(error), hint: ''};
}
