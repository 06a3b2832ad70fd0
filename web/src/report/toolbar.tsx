// Search, views and switches.

import {RefObject} from 'preact';
import {useRef} from 'preact/hooks';
import {formatCount, formatShare} from '../engine/format';
import {Search} from '../engine/search';
import {kViews, ViewName, ViewState} from '../ui/view_state';
import {ViewControl} from './use_view_state';

const kViewTitles: Record<ViewName, string> = {icicle: 'Icicle', flame: 'Flame', sandwich: 'Sandwich', table: 'Table'};

export function Toolbar({control, search, matched, whole, box}: {
  control: ViewControl;
  search: Search;
  /** Value of what matches. */
  matched: number;
  whole: number;
  box: RefObject<HTMLInputElement>;
}) {
  const {state, go} = control;
  const typing = useRef(false);
  return (
    <div class="toolbar">
      <label class="search">
        <span class="hidden">Search functions</span>
        <input
          ref={box} type="search" placeholder="/ search" value={state.search} spellcheck={false}
          autocomplete="off" aria-invalid={search.error !== ''} aria-describedby="search-result"
          onInput={(event) => {
            go({search: event.currentTarget.value}, typing.current);
            typing.current = true;
          }}
          onBlur={() => {
            typing.current = false;
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            if (event.key !== 'Escape') return;
            event.preventDefault();
            event.stopPropagation();
            if (state.search !== '') go({search: ''}, typing.current);
            else event.currentTarget.blur();
          }} />
      </label>
      <output id="search-result" class={`result ${search.error ? 'bad' : ''}`} title={search.error}>
        {search.error ? `not an expression: ${search.error}`
         : search.matched ? `${formatShare(matched, whole)} matched · ${formatCount(search.symbols)} function${search.symbols === 1 ? '' : 's'}`
         : ''}
      </output>
      <Views state={state} go={go} />
      <label class="switch">
        <input type="checkbox" checked={state.fold} onChange={(event) => go({fold: event.currentTarget.checked})} />
        fold recursion
      </label>
    </div>
  );
}

function Views({state, go}: {state: ViewState; go: ViewControl['go']}) {
  const walk = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = kViews[(kViews.indexOf(state.view) + step + kViews.length) % kViews.length];
    go({view: next});
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="views" role="tablist" aria-label="View" onKeyDown={walk}>
      {kViews.map((view) => (
        <button key={view} id={`tab-${view}`} role="tab" aria-selected={state.view === view} aria-controls="picture"
                tabIndex={state.view === view ? 0 : -1} onClick={() => go({view})}>
          {kViewTitles[view]}
        </button>
      ))}
    </div>
  );
}
