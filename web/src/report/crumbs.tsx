// The line above the picture: where one is, and the way back.

import {ComponentChildren} from 'preact';
import {pathTo, Tree} from '../engine/tree';
import {Profile} from '../profile/parse';
import {ViewControl} from './use_view_state';

/** Nodes of a long path that are shown at its end; the first one always is. */
const kTailMax = 4;

export function Crumbs({profile, tree, focus, control, note, children}: {
  profile: Profile;
  tree: Tree;
  /** Node of `tree`. */
  focus: number;
  control: ViewControl;
  note: string;
  children?: ComponentChildren;
}) {
  const {state, moved, undoable, go, back, reset} = control;
  const name = (node: number) => profile.symbols.name[tree.symbol[node]];
  const path = pathTo(tree, focus);
  const tail = path.length > kTailMax + 1 ? path.slice(-kTailMax) : path.slice(1);
  const crumb = (node: number) => (
    <li key={node}>
      <button class="plain" title={name(node)} aria-current={node === focus ? 'location' : undefined}
              onClick={() => go({focus: tree.origin[node]})}>{name(node)}</button>
    </li>
  );
  return (
    <div class="crumbs">
      {state.view === 'sandwich' && state.symbol >= 0 ? (
        <ol>
          <li><span class="dim">callers above, callees below:</span></li>
          <li><strong title={profile.symbols.name[state.symbol]}>{profile.symbols.name[state.symbol]}</strong></li>
          <li><button class="plain" onClick={() => go({symbol: -1})}>choose another</button></li>
        </ol>
      ) : focus === 0 ? (
        <span class="dim hint">{note || (state.view === 'table' ? <span class="wide">A function opens its callers and callees.</span>
            : state.view === 'sandwich' ? 'Choose a function to see its callers and callees.'
            : [<span key="zoom">Click a box to zoom</span>, <span key="more" class="wide">, right-click for more, ? for keys</span>])}</span>
      ) : (
        <ol class="path" aria-label="Path of the zoom">
          {crumb(path[0])}
          {tail.length < path.length - 1 && <li class="dim" title={`${path.length - 1 - tail.length} more`}>…</li>}
          {tail.map(crumb)}
        </ol>
      )}
      <span class="space" />
      {children}
      <button disabled={!undoable} onClick={back}>Undo <kbd>Esc</kbd></button>
      <button disabled={!moved} onClick={reset}>Reset</button>
    </div>
  );
}
