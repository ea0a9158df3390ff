// SPDX-License-Identifier: Apache-2.0
// The profile as pprof, made from its JSON: so the file is of the very window that is on the screen.
import {Function, Label, Line, Location, Mapping, Profile as Pprof, Sample, StringTable, ValueType} from 'pprof-format';

import type {Profile} from './profile';
import {valuesOf} from './values';

function comments(profile: Profile): string[] {
  const figures = Object.entries(profile.quality).filter(([name]) => name !== 'anomalies').map(([name, value]) => `${name}=${String(value)}`);
  const anomalies = profile.quality.anomalies.map(
    ({kind, total, meaning, detail}) => `anomaly=${kind} ${total} ${meaning}${detail ? `: ${detail}` : ''}`);
  return [...figures, ...anomalies];
}

export function toPprof(profile: Profile): Uint8Array {
  const strings = new StringTable();
  const text = (value: string) => strings.dedup(value);
  const values = valuesOf(profile.stacks[0]);
  const sampleType = values.map(({key, unit}) => new ValueType({
    type: text(key.replace(/_(ns|bytes)$/, '')),  // as the server's own pprof names them
    unit: text(unit === 'time' ? 'nanoseconds' : unit),
  }));

  const functions = new Map<string, Function>();
  const functionOf = (name: string, system: string, file: string): Function => {
    const key = `${name}\0${system}\0${file}`;
    let found = functions.get(key);
    if (!found) {
      found = new Function({id: functions.size + 1, name: text(name), systemName: system === name ? 0 : text(system), filename: text(file)});
      functions.set(key, found);
    }
    return found;
  };

  return new Pprof({
    stringTable: strings,
    sampleType,
    periodType: sampleType[0],
    period: 1,
    defaultSampleType: sampleType[0]?.type ?? 0,
    timeNanos: BigInt(Math.round(profile.window.start_unix_ns)),
    durationNanos: profile.window.duration_ns,
    comment: comments(profile).map(text),
    mapping: profile.mappings.map((mapping, index) => new Mapping({
      id: index + 1, filename: text(mapping.file), buildId: text(mapping.build_id),
      hasFunctions: true, hasFilenames: true, hasLineNumbers: true, hasInlineFrames: true,
    })),
    location: profile.frames.map((frame, index) => new Location({
      id: index + 1, mappingId: frame.mapping === undefined ? 0 : frame.mapping + 1, address: frame.address ?? 0,
      line: frame.lines.map((line) => new Line({
        functionId: functionOf(line.function, line.system_name ?? line.function, line.file ?? '').id, line: line.line ?? 0,
      })),
    })),
    sample: profile.stacks.map((stack) => new Sample({
      locationId: stack.frames.map((frame) => frame + 1),
      value: values.map(({key}) => stack[key] as number),
      // A number without a unit is dropped by pprof where it is 0.
      label: Object.entries(stack.labels).map(([key, value]) => new Label(typeof value === 'number'
        ? {key: text(key), num: value, numUnit: text('id')} : {key: text(key), str: text(value)})),
    })),
    function: [...functions.values()],
  }).encode();
}
