// The profile inside the page: docs/formats/html-data.md, checked before anything trusts it.

import {linksOf, Series, Tree} from '../engine/tree';

/** Larger versions are refused. */
export const kVersionMax = 1;
/** More nodes than this are not drawn: the page would not answer. Exporters stay far below. */
export const kNodesMax = 5_000_000;

export interface SampleType {
  readonly type: string;
  readonly unit: string;
}

/** A function: what equal (name, object) mean. */
export interface Symbols {
  readonly count: number;
  readonly name: readonly string[];
  /** '' = unknown. */
  readonly object: readonly string[];
  /** 'path:line', 'path' or ''. */
  readonly place: readonly string[];
}

export interface Counted {
  readonly label: string;
  readonly count: number;
  readonly remedy: string;
}

export interface Quality {
  readonly captured: number;
  readonly kept: number;
  readonly lost: readonly Counted[];
  /** Null where the profile does not say. */
  readonly complete: number | null;
  readonly cut: readonly Counted[];
  readonly symbolized: number | null;
  readonly unsymbolized: readonly Counted[];
}

export interface Profile {
  readonly title: string;
  readonly other_title: string;
  readonly sample_types: readonly SampleType[];
  readonly default_type: number;
  readonly symbols: Symbols;
  readonly tree: Tree;
  readonly pruned: {readonly nodes: number; readonly total: readonly number[]} | null;
  readonly quality: Quality | null;
}

/** Its message is one sentence for the person who opened the page. */
export class ProfileError extends Error {}

type Json = Record<string, unknown>;

function fail(sentence: string): never {
  throw new ProfileError(sentence);
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function strings(from: Json, key: string): string[] {
  const value = from[key];
  if (!Array.isArray(value)) fail(`"${key}" is not a list.`);
  const bad = value.findIndex((entry) => typeof entry !== 'string');
  if (bad >= 0) fail(`"${key}" holds something that is not a text, at ${bad}.`);
  return value as string[];
}

function numbers(value: unknown, key: string, size: number): number[] {
  if (!Array.isArray(value)) fail(`"${key}" is not a list.`);
  if (value.length !== size) fail(`"${key}" has ${value.length} entries where ${size} are needed.`);
  const bad = value.findIndex((entry) => typeof entry !== 'number' || !Number.isFinite(entry));
  if (bad >= 0) fail(`"${key}" holds something that is not a number, at ${bad}.`);
  return value as number[];
}

function indexes(value: unknown, key: string, size: number, min: number, limit: number): Int32Array {
  const list = numbers(value, key, size);
  const bad = list.findIndex((entry) => !Number.isInteger(entry) || entry < min || entry >= limit);
  if (bad >= 0) fail(`"${key}" is ${list[bad]} at node ${bad}, outside ${min} to ${limit - 1}.`);
  return Int32Array.from(list);
}

function seriesOf(from: Json, prefix: string, types: number, size: number): Series[] {
  const column = (key: string): Float64Array[] => {
    const lists = from[key];
    if (!Array.isArray(lists) || lists.length !== types) {
      fail(`"${prefix}.${key}" needs one list for each of the ${types} sample types.`);
    }
    return lists.map((list, t) => Float64Array.from(numbers(list, `${prefix}.${key}[${t}]`, size)));
  };
  const total = column('total');
  const self = column('self');
  return total.map((values, t) => ({total: values, self: self[t]}));
}

function checkLevels(level: Int32Array): void {
  if (level[0] !== 0) fail(`"nodes.level" starts with ${level[0]}, not with the root's 0.`);
  for (let i = 1; i < level.length; i++) {
    if (level[i] < 1 || level[i] > level[i - 1] + 1) {
      fail(`"nodes.level" jumps from ${level[i - 1]} to ${level[i]} at node ${i}: not in preorder.`);
    }
  }
}

function sampleTypes(from: Json): SampleType[] {
  const value = from['sample_types'];
  if (!Array.isArray(value) || value.length === 0) fail('"sample_types" is empty: nothing was measured.');
  return value.map((entry: unknown, i) => {
    if (!isObject(entry) || typeof entry['type'] !== 'string') fail(`"sample_types" has no type at ${i}.`);
    return {type: entry['type'], unit: textOf(entry['unit'])};
  });
}

function countedList(value: unknown, keys: readonly string[]): Counted[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map((entry) => ({
    label: keys.map((key) => textOf(entry[key])).filter((text) => text !== '').join(': '),
    count: countOf(entry['count']),
    remedy: textOf(entry['remedy']),
  })).sort((a, b) => b.count - a.count);
}

function qualityOf(value: unknown): Quality | null {
  if (!isObject(value)) return null;
  const stacks = isObject(value['stacks']) ? value['stacks'] : null;
  const frames = isObject(value['frames']) ? value['frames'] : null;
  return {
    captured: countOf(value['captured']),
    kept: countOf(value['kept']),
    lost: countedList(value['lost'], ['stage', 'reason']),
    complete: stacks ? countOf(stacks['complete']) : null,
    cut: stacks ? countedList(stacks['cut'], ['reason']) : [],
    symbolized: frames ? countOf(frames['symbolized']) : null,
    unsymbolized: frames ? countedList(frames['unsymbolized'], ['object', 'reason']) : [],
  };
}

interface Tables {
  names: string[];
  files: string[];
  objects: string[];
}

/** Numbers the functions in order of first appearance, so that the same file gives the same numbers. */
function symbolsOf(nodes: Json, size: number, tables: Tables): {symbols: Symbols; of_node: Int32Array} {
  const {names, files, objects} = tables;
  const name = indexes(nodes['name'], 'nodes.name', size, 0, names.length);
  const file = indexes(nodes['file'], 'nodes.file', size, -1, files.length);
  const object = indexes(nodes['object'], 'nodes.object', size, -1, objects.length);
  const line = numbers(nodes['line'], 'nodes.line', size);
  const known = new Map<number, number>();
  const made = {name: [] as string[], object: [] as string[], place: [] as string[]};
  const of_node = new Int32Array(size);
  for (let i = 0; i < size; i++) {
    const key = name[i] * (objects.length + 1) + object[i] + 1;
    let symbol = known.get(key);
    if (symbol === undefined) {
      symbol = made.name.length;
      known.set(key, symbol);
      made.name.push(names[name[i]] || '(no name)');
      made.object.push(object[i] >= 0 ? objects[object[i]] : '');
      made.place.push('');
    }
    if (made.place[symbol] === '' && file[i] >= 0 && files[file[i]] !== '') {
      made.place[symbol] = line[i] > 0 ? `${files[file[i]]}:${line[i]}` : files[file[i]];
    }
    of_node[i] = symbol;
  }
  return {symbols: {count: made.name.length, ...made}, of_node};
}

export function parseProfile(text: string): Profile {
  // Before export the page holds a comment where the profile goes.
  if (text.trim() === '' || text.trimStart().startsWith('/*')) {
    fail('This page holds no profile yet: it is the empty form that "ptarmigan convert IN -o OUT.html" fills.');
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    fail(`The profile in this page is damaged (${(error as Error).message}); export it again.`);
  }
  if (!isObject(json)) fail('The profile in this page is not an object; export it again.');
  const version = json['version'];
  if (typeof version !== 'number') fail('The profile in this page does not say its version; export it again.');
  if (version > kVersionMax) {
    fail(`The profile in this page has version ${version}, this page reads up to ${kVersionMax}: export it again ` +
         'with one version of ptarmigan.');
  }
  const types = sampleTypes(json);
  const nodes = json['nodes'];
  if (!isObject(nodes) || !Array.isArray(nodes['level'])) fail('"nodes" is missing; export the profile again.');
  const size = nodes['level'].length;
  if (size === 0) fail('"nodes" is empty: even a profile without samples has its root.');
  if (size > kNodesMax) fail(`The profile has ${size} nodes, more than the ${kNodesMax} that a page can draw.`);
  const level = indexes(nodes['level'], 'nodes.level', size, 0, size);
  checkLevels(level);
  const tables = {names: strings(json, 'names'), files: strings(json, 'files'), objects: strings(json, 'objects')};
  const {symbols, of_node} = symbolsOf(nodes, size, tables);
  const other = isObject(json['other']) ? json['other'] : null;
  const pruned = isObject(json['pruned']) ? json['pruned'] : null;
  const default_type = countOf(json['default_type']);
  return {
    title: textOf(json['title']) || 'Profile',
    other_title: other ? textOf(other['title']) || 'before' : '',
    sample_types: types,
    default_type: Number.isInteger(default_type) && default_type >= 0 && default_type < types.length ? default_type : 0,
    symbols,
    tree: {
      size, level, symbol: of_node,
      inlined: Uint8Array.from(indexes(nodes['inlined'], 'nodes.inlined', size, 0, 2)),
      origin: Int32Array.from({length: size}, (_, i) => i),
      ...linksOf(level),
      series: seriesOf(nodes, 'nodes', types.length, size),
      other: other ? seriesOf(other, 'other', types.length, size) : null,
    },
    pruned: pruned ? {
      nodes: countOf(pruned['nodes']),
      total: Array.isArray(pruned['total']) ? pruned['total'].map(countOf) : [],
    } : null,
    quality: qualityOf(json['quality']),
  };
}
