// The page of one profile.

import {useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState} from 'preact/hooks';
import {Step, stepFrom} from '../engine/boxes';
import {formatCount} from '../engine/format';
import {Hit} from '../engine/frame';
import {paletteOf} from '../engine/palette';
import {matchedTotal, searchNames} from '../engine/search';
import {foldRecursion, sandwichOf, Tree} from '../engine/tree';
import {Profile} from '../profile/parse';
import {functionRows} from '../profile/rows';
import {BoxCanvas} from '../ui/box_canvas';
import {BoxMenu, copyText, MenuPlace} from '../ui/box_menu';
import {Cell} from '../ui/cell';
import {Details} from '../ui/details';
import {FunctionTable, tableText} from '../ui/function_table';
import {GraphModel, sandwichModel, symbolFills, treeModel} from '../ui/graph_model';
import {Help} from '../ui/help';
import {Colouring, Legend} from '../ui/legend';
import {QualityLine} from '../ui/quality_line';
import {useTheme} from '../ui/theme';
import {SortKey, ViewState} from '../ui/view_state';
import {Crumbs} from './crumbs';
import {Toolbar} from './toolbar';
import {useViewState, ViewControl} from './use_view_state';

const kSteps: Record<string, Step> = {ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down'};

interface Shown {
  readonly tree: Tree;
  /** Node of `tree` that the state's focus means. */
  readonly focus: number;
  /** Null in the table view, and in the sandwich until a function is chosen. */
  readonly model: GraphModel | null;
  readonly x_from: number;
  readonly x_to: number;
  /** Why the picture is not zoomed although the state says so; else ''. */
  readonly note: string;
}

/** Tree, model and zoom of a state; each is made again only when what it comes from has changed. */
function useShown(profile: Profile, state: ViewState): Shown {
  const {view, type, fold, symbol} = state;
  const fills = useMemo(() => symbolFills(profile.symbols), [profile]);
  const folded = useMemo(() => (fold ? foldRecursion(profile.tree, profile.symbols.count) : null), [profile, fold]);
  const tree = folded ? folded.tree : profile.tree;
  const focus = folded ? folded.node[state.focus] : state.focus;
  const model = useMemo(() => {
    if (view === 'icicle' || view === 'flame') return treeModel(profile, fills, tree, type, view === 'flame');
    if (view !== 'sandwich' || symbol < 0) return null;
    const sandwich = sandwichOf(tree, profile.symbols.count, symbol, type);
    return sandwich ? sandwichModel(profile, fills, sandwich, type) : null;
  }, [profile, fills, tree, type, view, symbol]);
  const all = {x_from: model?.boxes.x_min ?? 0, x_to: model?.boxes.x_max ?? 0};
  if (!model || view === 'sandwich' || focus === 0) return {tree, focus, model, ...all, note: ''};
  const box = model.box_of[focus];
  if (box < 0) {
    const note = `${profile.symbols.name[tree.symbol[focus]]} has no ${profile.sample_types[type].type}: everything is shown.`;
    return {tree, focus: 0, model, ...all, note};
  }
  return {tree, focus, model, x_from: model.boxes.x[box], x_to: model.boxes.x[box] + model.boxes.width[box], note: ''};
}

export function Report({profile}: {profile: Profile}) {
  const control = useViewState(profile);
  const {state, go} = control;
  const {theme, toggle} = useTheme();
  const palette = useMemo(() => paletteOf(theme), [theme]);
  const shown = useShown(profile, state);
  const {tree, model} = shown;
  const search = useMemo(() => searchNames(profile.symbols.name, state.search), [profile, state.search]);
  const whole = profile.tree.series[state.type].total[0];
  const matched = useMemo(() => (search.matched ? matchedTotal(tree, tree.series[state.type].total, search.matched) : 0),
                          [tree, search, state.type]);
  const [selected, setSelected] = useState(-1);
  const [menu, setMenu] = useState<MenuPlace | null>(null);
  const [help, setHelp] = useState(false);
  const search_box = useRef<HTMLInputElement>(null);
  const hover = useMemo(() => new Cell<Hit | null>(null), []);
  const look = useMemo(() => model?.look(search.matched), [model, search]);

  // Ids belong to a model: with another one they would mean other boxes.
  const [selected_in, setSelectedIn] = useState(model);
  if (selected_in !== model) {
    setSelectedIn(model);
    setSelected(-1);
  }
  useEffect(() => hover.set(null), [model, hover]);

  const pick = useCallback((id: number) => {
    if (!model) return;
    setSelected(id);
    const facts = model.facts(id);
    go(state.view === 'sandwich' ? {symbol: facts.symbol} : {focus: facts.origin});
  }, [model, go, state.view]);

  const openMenu = useCallback((id: number, x: number, y: number) => {
    if (!model) return;
    const {symbol} = model.facts(id);
    const name = profile.symbols.name[symbol];
    setMenu({x, y, title: name, items: [
      {text: state.view === 'sandwich' ? 'Callers and callees of this' : 'Zoom here', run: () => pick(id)},
      ...(state.view === 'sandwich' ? [] : [{text: 'Callers and callees', run: () => go({view: 'sandwich', symbol})}]),
      {text: 'Search this name', run: () => go({search: `^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`})},
      {text: 'Copy name', run: () => void copyText(name)},
    ]});
  }, [model, profile, pick, go, state.view]);

  useKeys({control, shown, selected, setSelected, pick, openMenu, toggle, search_box, openHelp: () => setHelp(true)});

  return (
    <div class={`page ${profile.tree.other ? 'compared' : ''}`}>
      <header>
        <strong class="brand">Ptarmigan</strong>
        <h1 title={profile.title}>{profile.title}</h1>
        {profile.sample_types.length > 1 && (
          <label class="type">
            <span class="hidden">Sample type</span>
            <select value={state.type} onChange={(event) => go({type: Number(event.currentTarget.value)})}>
              {profile.sample_types.map(({type, unit}, i) => <option key={i} value={i}>{typeTitle(type, unit)}</option>)}
            </select>
          </label>
        )}
        <button onClick={toggle} title="Dark or light (d)" aria-label="Dark or light">{theme === 'dark' ? '☀' : '☾'}</button>
        <button onClick={() => setHelp(true)} title="Keys (?)" aria-label="Keys">?</button>
      </header>
      <QualityLine profile={profile} type={state.type} />
      <Toolbar control={control} search={search} matched={matched} whole={whole} box={search_box} />
      <Picture {...{profile, control, shown, matched_symbols: search.matched, palette, look, selected, hover, pick, openMenu}} />
      {menu && <BoxMenu place={menu} onClose={() => setMenu(null)} />}
      <Help open={help} onClose={() => setHelp(false)} />
    </div>
  );
}

function Picture({profile, control, shown, matched_symbols, palette, look, selected, hover, pick, openMenu}: {
  profile: Profile;
  control: ViewControl;
  shown: Shown;
  matched_symbols: Uint8Array | null;
  palette: ReturnType<typeof paletteOf>;
  look: ReturnType<GraphModel['look']> | undefined;
  selected: number;
  hover: Cell<Hit | null>;
  pick(id: number): void;
  openMenu(id: number, x: number, y: number): void;
}) {
  const {state, go} = control;
  const {tree, focus, model} = shown;
  const table = model === null;
  const rows = useMemo(() => (table ? functionRows(profile, tree, state.type, focus, matched_symbols) : []),
                       [table, profile, tree, state.type, focus, matched_symbols]);
  const [copied, setCopied] = useState('');
  const sort = (key: SortKey) => go(
      key === state.sort ? {ascending: !state.ascending} : {sort: key, ascending: key === 'name'}, true);
  const nothing = profile.tree.series[state.type].total[0] <= 0 &&
      !(profile.tree.other && profile.tree.other[state.type].total[0] > 0);
  // The table lists matches only: its colours are those without a search.
  const faded = matched_symbols !== null && !table;
  const colouring: Colouring = profile.tree.other ? (faded ? 'change-search' : 'change') : faded ? 'search' : 'kinds';
  const resting = !model ? -1 : selected >= 0 ? selected : state.view === 'sandwich' ? sandwichRoot(model) : focus;
  return (
    <>
      <Crumbs profile={profile} tree={tree} focus={focus} control={control} note={shown.note}>
        {table && !nothing && (
          <button onClick={() => void copyText(tableText(profile, rows, state.type)).then((done) =>
            setCopied(done ? `${formatCount(rows.length)} rows copied` : 'the browser refused'))}>
            {copied || 'Copy table'}
          </button>
        )}
      </Crumbs>
      <main id="picture" role="tabpanel" aria-labelledby={`tab-${state.view}`}>
        {nothing ? <NoSamples profile={profile} control={control} />
         : model && look ? (
          <BoxCanvas
            boxes={model.boxes} look={look} palette={palette} x_from={shown.x_from} x_to={shown.x_to}
            from_bottom={model.from_bottom} first_row={model.first_row} hover={hover}
            selected={selected >= 0 ? model.box_of[selected] ?? -1 : state.view === 'sandwich' ? model.box_of[resting] : -1}
            label={`${state.view} graph of ${formatCount(model.boxes.x.length)} boxes. Arrow keys walk it; the table view, key t, says the same as text.`}
            onPick={(hit) => pick(model.boxes.id[hit.box])}
            onMenu={(hit, x, y) => openMenu(model.boxes.id[hit.box], x, y)} />
        ) : rows.length === 0 ? (
          <div class="empty">
            <p><strong>No function here matches the search.</strong></p>
            <p><button onClick={() => go({search: ''})}>Clear the search</button></p>
          </div>
        ) : (
          <FunctionTable profile={profile} rows={rows} type={state.type} sort={state.sort} ascending={state.ascending} palette={palette}
                         onSort={sort} onChoose={(symbol) => go({view: 'sandwich', symbol})} />
        )}
      </main>
      <Legend palette={palette} colouring={colouring} boxes={!table} other_title={profile.other_title} />
      {model && !nothing ? <Details profile={profile} model={model} type={state.type} hover={hover} resting={resting} />
       : <div class="details"><div class="figures"><span>{nothing ? '' : `${formatCount(rows.length)} functions`}</span></div></div>}
    </>
  );
}

function sandwichRoot(model: GraphModel): number {
  return model.boxes.id[model.boxes.first[model.first_row]] ?? -1;
}

function NoSamples({profile, control}: {profile: Profile; control: ViewControl}) {
  const name = profile.sample_types[control.state.type].type;
  const others = profile.sample_types.map((_, i) => i).filter((i) => profile.tree.series[i].total[0] > 0);
  const {quality} = profile;
  return (
    <div class="empty">
      <p><strong>No samples of {name} in this profile.</strong></p>
      {others.length > 0 ? (
        <p>It has {others.map((i) => (
          <button key={i} onClick={() => control.go({type: i})}>{profile.sample_types[i].type}</button>))}</p>
      ) : quality && quality.kept > 0 ? (
        <p>{formatCount(quality.kept)} samples were kept, but none of them carries a value.</p>
      ) : quality && quality.captured > 0 ? (
        <p>{formatCount(quality.captured)} were captured and {formatCount(quality.captured - quality.kept)} did not come
          through; the line at the top tells why.</p>
      ) : (
        <p>Nothing was captured: the program may have been idle, or have ended before the recording began. Record longer,
          or with <code>--source wall</code> to see waiting too.</p>
      )}
    </div>
  );
}

const kShortUnits: Record<string, string> =
    {count: '', nanoseconds: 'ns', microseconds: 'µs', milliseconds: 'ms', seconds: 's', bytes: 'B'};

function typeTitle(type: string, unit: string): string {
  const short = kShortUnits[unit] ?? unit;
  return short === '' ? type : `${type} (${short})`;
}

interface KeyTargets {
  control: ViewControl;
  shown: Shown;
  selected: number;
  setSelected(id: number): void;
  pick(id: number): void;
  openMenu(id: number, x: number, y: number): void;
  toggle(): void;
  openHelp(): void;
  search_box: {readonly current: HTMLInputElement | null};
}

function useKeys(targets: KeyTargets): void {
  const latest = useRef(targets);
  latest.current = targets;
  // Before the first paint: a key pressed on a picture that is visible counts.
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => onKey(event, latest.current);
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}

function onKey(event: KeyboardEvent, to: KeyTargets): void {
  const element = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (element.closest('dialog, .menu, input:not([type=checkbox]), select, textarea')) return;
  const {go, back, state} = to.control;
  const {model} = to.shown;
  const current = to.selected >= 0 ? to.selected
      : !model ? -1 : state.view === 'sandwich' ? sandwichRoot(model) : to.shown.focus;
  const actions: Record<string, () => void> = {
    '/': () => {
      to.search_box.current?.focus();
      to.search_box.current?.select();
    },
    Escape: back,
    '?': to.openHelp,
    t: () => go({view: 'table'}),
    i: () => go({view: 'icicle'}),
    f: () => go({view: 'flame'}),
    r: () => go({fold: !state.fold}),
    d: to.toggle,
  };
  if (model && current >= 0) {
    actions['s'] = () => go({view: 'sandwich', symbol: model.facts(current).symbol});
    actions['m'] = () => {
      const place = document.querySelector('.outline.selected, .boxes')?.getBoundingClientRect();
      to.openMenu(current, (place?.left ?? 0) + 8, (place?.top ?? 0) + 20);
    };
    // A button that has the keyboard keeps its own Enter.
    if (to.selected >= 0 && !element.closest('button')) actions['Enter'] = () => to.pick(current);
    const step = kSteps[event.key];
    if (step) {
      actions[event.key] = () => {
        const box = model.box_of[current];
        if (box < 0) return;
        const next = to.selected < 0 ? box : stepFrom(model.boxes, box, step, to.shown.x_from, to.shown.x_to);
        to.setSelected(model.boxes.id[next]);
      };
    }
  }
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
