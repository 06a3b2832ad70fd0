// The view state of a page, kept in the URL hash and undone step by step.

import {useCallback, useRef, useState} from 'preact/hooks';
import {Profile} from '../profile/parse';
import {Steps} from '../ui/steps';
import {defaultState, hashOf, stateOf, ViewState} from '../ui/view_state';

/** Below this width the page starts with the table: boxes would be too narrow to read. */
export const kNarrowPx = 600;

export interface ViewControl {
  readonly state: ViewState;
  /** Something other than the start is shown, so that `reset` does something. */
  readonly moved: boolean;
  readonly undoable: boolean;
  /** `replace`: part of the step before, as each letter of a search is. */
  go(change: Partial<ViewState>, replace?: boolean): void;
  /** Undoes one step; at the first step, clears what the link brought along. */
  back(): void;
  reset(): void;
}

export function useViewState(profile: Profile): ViewControl {
  const [start] = useState(() => defaultState(profile, innerWidth < kNarrowPx));
  const [state, setState] = useState(() => stateOf(location.hash, start, profile));
  const latest = useRef(state);
  const steps = useRef<Steps | null>(null);
  const show = useCallback((next: ViewState) => {
    latest.current = next;
    setState(next);
  }, []);
  steps.current ??= new Steps((hash) => show(stateOf(hash, start, profile)));
  const go = useCallback((change: Partial<ViewState>, replace = false) => {
    const next = {...latest.current, ...change};
    steps.current!.go(hashOf(next, start, profile), replace);
    show(next);
  }, [start, profile, show]);
  const reset = useCallback(() => go({focus: 0, search: '', symbol: -1, fold: false}), [go]);
  const back = useCallback(() => {
    if (!steps.current!.back()) reset();
  }, [reset]);
  const moved = state.focus !== 0 || state.search !== '' || state.symbol >= 0 || state.fold;
  return {state, moved, undoable: moved || steps.current.canGoBack(), go, back, reset};
}
