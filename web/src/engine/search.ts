// Search by regular expression over function names, and how much of the profile matched.

import {Tree} from './tree';

/** Longer expressions are not compiled. */
export const kPatternLengthMax = 1000;

export interface Search {
  /** 1 where the symbol's name matches; null if there is nothing to search for. */
  readonly matched: Uint8Array | null;
  readonly symbols: number;
  /** Why the expression is not one; else ''. */
  readonly error: string;
}

export const kNoSearch: Search = {matched: null, symbols: 0, error: ''};

/** Ignores case unless the expression holds a capital letter (escapes such as \W and \S do not count). */
export function searchNames(names: readonly string[], pattern: string): Search {
  if (pattern === '') return kNoSearch;
  if (pattern.length > kPatternLengthMax) {
    return {matched: null, symbols: 0, error: `longer than ${kPatternLengthMax} characters`};
  }
  let expression: RegExp;
  try {
    expression = new RegExp(pattern, /\p{Lu}/u.test(pattern.replace(/\\./g, '')) ? '' : 'i');
  } catch (error) {
    const reason = (error as Error).message.replace(/^Invalid regular expression: /, '');
    return {matched: null, symbols: 0, error: reason.slice(reason.lastIndexOf(': ') + 1).trim()};
  }
  const matched = new Uint8Array(names.length);
  let symbols = 0;
  for (let i = 0; i < names.length; i++) {
    if (expression.test(names[i])) {
      matched[i] = 1;
      symbols++;
    }
  }
  return {matched, symbols, error: ''};
}

/** Sum of `total` over the nodes that match and have no matching ancestor; the root itself is not searched. */
export function matchedTotal(tree: Tree, total: Float64Array, matched: Uint8Array): number {
  let sum = 0;
  for (let i = 1; i < tree.size;) {
    if (matched[tree.symbol[i]]) {
      sum += total[i];
      i = tree.end[i];
    } else {
      i++;
    }
  }
  return sum;
}
