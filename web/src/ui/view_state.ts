// What a person looks at, and its form in the URL hash: a pasted link shows the same picture.

import {Profile} from '../profile/parse';

export type ViewName = 'icicle' | 'flame' | 'sandwich' | 'table';
export type SortKey = 'self' | 'total' | 'name' | 'self_change' | 'total_change';

export interface ViewState {
  readonly view: ViewName;
  readonly type: number;
  readonly search: string;
  /** Node of the file that the picture is zoomed to; 0 = everything. */
  readonly focus: number;
  /** Function of the sandwich, -1 = none chosen. */
  readonly symbol: number;
  readonly fold: boolean;
  readonly sort: SortKey;
  readonly ascending: boolean;
}

export const kViews: readonly ViewName[] = ['icicle', 'flame', 'sandwich', 'table'];
const kSorts: readonly SortKey[] = ['self', 'total', 'name', 'self_change', 'total_change'];

export function defaultState(profile: Profile, narrow: boolean): ViewState {
  return {
    view: narrow ? 'table' : 'icicle', type: profile.default_type, search: '', focus: 0, symbol: -1, fold: false,
    sort: 'self', ascending: false,
  };
}

/** Only what differs from `start`, without the '#'. */
export function hashOf(state: ViewState, start: ViewState, profile: Profile): string {
  const hash = new URLSearchParams();
  if (state.view !== start.view) hash.set('view', state.view);
  if (state.type !== start.type) hash.set('type', typeName(profile, state.type));
  if (state.search !== '') hash.set('search', state.search);
  if (state.focus !== 0) hash.set('focus', String(state.focus));
  if (state.symbol >= 0) hash.set('function', String(state.symbol));
  if (state.fold) hash.set('fold', '1');
  if (state.sort !== start.sort || state.ascending) hash.set('sort', (state.ascending ? '+' : '') + state.sort);
  return hash.toString();
}

/** Anything in the hash that this profile does not have is left at `start`. */
export function stateOf(hash: string, start: ViewState, profile: Profile): ViewState {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const index = (key: string, limit: number, otherwise: number) => {
    const value = given.get(key);
    return value !== null && /^\d{1,9}$/.test(value) && Number(value) < limit ? Number(value) : otherwise;
  };
  const view = kViews.find((name) => name === given.get('view')) ?? start.view;
  const type_text = given.get('type');
  const type = profile.sample_types.findIndex((_, i) => typeName(profile, i) === type_text);
  const sort_text = given.get('sort') ?? '';
  const sort = kSorts.find((key) => key === sort_text.replace(/^\+/, ''));
  return {
    view,
    type: type >= 0 ? type : start.type,
    search: given.get('search') ?? '',
    focus: index('focus', profile.tree.size, 0),
    symbol: index('function', profile.symbols.count, -1),
    fold: given.get('fold') === '1',
    sort: sort ?? start.sort,
    ascending: sort !== undefined && sort_text.startsWith('+'),
  };
}

/** The type's name, numbered if an earlier type has the same one. */
function typeName(profile: Profile, type: number): string {
  const {type: name} = profile.sample_types[type];
  const earlier = profile.sample_types.slice(0, type).filter((entry) => entry.type === name).length;
  return earlier > 0 ? `${name}~${earlier + 1}` : name;
}
