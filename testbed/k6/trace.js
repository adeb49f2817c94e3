// A recorded load, played again, for k6: a file with a line minute,count for each minute from 0 on, before
// which the columns may be named, as plimsoll simulate and plimsoll testbed run --trace read it.
//
//   k6 run -e TRACE=load.csv testbed/k6/trace.js
//   k6 run -e TRACE=load.csv -e FROM=600 -e MINUTES=60 -e SCALE=0.1 testbed/k6/trace.js
//
// The environment says what it does; load.js must lie beside it.
//
//   TRACE                 the file, by a name that begins with / or from the folder that k6 is run in
//   FROM         0        the first minute to play
//   MINUTES               how many of them (all that are left)
//   SCALE        1        how many times as many requests come
//   SPEED        1        how many times as fast the minutes pass, with as many requests in each
//   USERS        200      how many requests may be on their way at a time; others are not sent, and counted
//   URL          http://127.0.0.1:8080/  what is asked for, with GET
//   TARGET       300      milliseconds within which an answer is good
//   OBJECTIVE    90       percent of the requests that must be good, or k6 exits with 99; 0: not judged
//   QUANTILE     90       percent, of the response times of every minute
//   CONNECTIONS  keep     keep, or new: a connection for every request
//   SUMMARY      summary.json  the file for what came of it; -: a line on standard output that begins with
//                         plimsoll-summary
import { arrivals, ask, number, whole } from './load.js';
export { handleSummary, setup } from './load.js';

const speed = number('SPEED', 1, 0.01, 600);
const scale = number('SCALE', 1, 1e-9);
const minute = 60 / speed; // seconds

export const options = arrivals(part(read(__ENV.TRACE)).map((n) => ({ count: n * scale, keep: minute })), whole('USERS', 200), minute);

export default ask;

// read reads the counts. Nothing is put right: a minute that is missing was not measured.
function read(name) {
  if (!name) throw new Error('TRACE: must be given, was not');
  const text = open(name.startsWith('/') ? name : `${__ENV.PWD}/${name}`);
  const lines = text.replace(/\n$/, '').split('\n');
  const headed = !/[0-9]/.test(lines[0]);
  if (headed && lines[0].replace(/\s/g, '') !== 'minute,count') throw fault(name, 1, 'the columns must be minute,count', lines[0]);
  const counts = lines.slice(headed ? 1 : 0).map((line, i) => count(name, i + (headed ? 2 : 1), line, i));
  if (counts.length === 0) throw new Error(`TRACE: ${name}: must have a minute or more, was empty`);
  return counts;
}

// count reads a line, which must be that of the minute.
function count(name, at, line, want) {
  const parts = /^\s*(\d+)\s*,\s*(\d+)\s*$/.exec(line);
  if (!parts) throw fault(name, at, 'must be minute,count in whole numbers', line);
  if (Number(parts[1]) !== want) throw fault(name, at, `the minute must be ${want}`, parts[1]);
  return Number(parts[2]);
}

function fault(name, at, rule, was) {
  return new Error(`TRACE: ${name} line ${at}: ${rule}, was "${was}"`);
}

// part is what is to be played of the counts.
function part(counts) {
  const from = whole('FROM', 0, 0);
  if (from >= counts.length) throw new Error(`FROM: must be before minute ${counts.length}, where the trace ends, was "${from}"`);
  const length = whole('MINUTES', counts.length - from);
  if (from + length > counts.length) throw new Error(`MINUTES: must be at most ${counts.length - from}, which are left of the trace, was "${length}"`);
  return counts.slice(from, from + length);
}
