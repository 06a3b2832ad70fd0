// The functions of a profile, or of the part below one node: what the table lists.

import {sumBySymbol, Tree} from '../engine/tree';
import {Profile} from './parse';

export interface FunctionRow {
  readonly symbol: number;
  readonly self: number;
  readonly total: number;
  /** Of the type `samples`; equal to `total` where that is the type shown. */
  readonly samples: number;
  /** Shares of the whole, in this profile minus in the one compared against; 0 without one. */
  readonly self_change: number;
  readonly total_change: number;
}

/** Index of the sample count among the sample types, -1 if there is none. */
export function samplesType(profile: Profile): number {
  return profile.sample_types.findIndex(({type, unit}) => type === 'samples' && (unit === 'count' || unit === ''));
}

/** Functions with a value below `root`, in no particular order; `matched` keeps those that a search found. */
export function functionRows(profile: Profile, tree: Tree, type: number, root: number,
                             matched: Uint8Array | null): FunctionRow[] {
  const {count} = profile.symbols;
  const mine = sumBySymbol(tree, count, tree.series[type], root);
  const counted = samplesType(profile);
  const samples = counted >= 0 && counted !== type ? sumBySymbol(tree, count, tree.series[counted], root) : null;
  const theirs = tree.other ? sumBySymbol(tree, count, tree.other[type], root) : null;
  const whole = tree.series[type].total[0];
  const other_whole = tree.other ? tree.other[type].total[0] : 0;
  const change = (value: number, other: number) =>
    (whole > 0 ? value / whole : 0) - (other_whole > 0 ? other / other_whole : 0);
  const rows: FunctionRow[] = [];
  for (let symbol = 0; symbol < count; symbol++) {
    const there = mine.total[symbol] !== 0 || mine.self[symbol] !== 0 || (theirs !== null && theirs.total[symbol] !== 0);
    if (!there || (matched && !matched[symbol])) continue;
    rows.push({
      symbol, self: mine.self[symbol], total: mine.total[symbol],
      samples: samples ? samples.total[symbol] : mine.total[symbol],
      self_change: theirs ? change(mine.self[symbol], theirs.self[symbol]) : 0,
      total_change: theirs ? change(mine.total[symbol], theirs.total[symbol]) : 0,
    });
  }
  return rows;
}

export type NumberColumn = 'self' | 'total' | 'self_change' | 'total_change';

/** Changes are sorted by size whatever their sign; ties by name, so that the order never depends on luck. */
export function sortRows(rows: readonly FunctionRow[], key: NumberColumn | 'name', ascending: boolean,
                         names: readonly string[]): FunctionRow[] {
  const byName = (a: FunctionRow, b: FunctionRow) =>
    (names[a.symbol] < names[b.symbol] ? -1 : names[a.symbol] > names[b.symbol] ? 1 : a.symbol - b.symbol);
  const sign = ascending ? 1 : -1;
  const size = (row: FunctionRow) => {
    const value = row[key as NumberColumn];
    return key === 'self_change' || key === 'total_change' ? Math.abs(value) : value;
  };
  const order = key === 'name' ? (a: FunctionRow, b: FunctionRow) => sign * byName(a, b)
      : (a: FunctionRow, b: FunctionRow) => sign * (size(a) - size(b)) || byName(a, b);
  return [...rows].sort(order);
}
