// The table that says the same as the graph: real table markup, rows made only where they are in view.

import {useLayoutEffect, useMemo, useRef, useState} from 'preact/hooks';
import {formatCount, formatPoints, formatShare, formatValue} from '../engine/format';
import {changeFill, changeOf, css, Rgb} from '../engine/palette';
import {Profile} from '../profile/parse';
import {FunctionRow, samplesType, sortRows} from '../profile/rows';
import {symbolFills} from './graph_model';
import {SortKey} from './view_state';

const kRowPx = 28;
const kSpareRows = 8;

interface Props {
  profile: Profile;
  rows: readonly FunctionRow[];
  type: number;
  sort: SortKey;
  ascending: boolean;
  palette: readonly Rgb[];
  onSort(key: SortKey): void;
  onChoose(symbol: number): void;
}

interface Column {
  key: string;
  sort: SortKey | null;
  title: string;
  /** Hidden on narrow screens. */
  wide: boolean;
  cell(row: FunctionRow): string;
}

function columnsOf(profile: Profile, type: number): Column[] {
  const {unit, type: name} = profile.sample_types[type];
  const whole = profile.tree.series[type].total[0];
  const columns: Column[] = [
    {key: 'self_share', sort: 'self', title: 'Self', wide: false, cell: (row) => formatShare(row.self, whole)},
    {key: 'self', sort: null, title: `Self ${name}`, wide: true, cell: (row) => formatValue(row.self, unit)},
    {key: 'total_share', sort: 'total', title: 'Total', wide: false, cell: (row) => formatShare(row.total, whole)},
    {key: 'total', sort: null, title: `Total ${name}`, wide: true, cell: (row) => formatValue(row.total, unit)},
  ];
  const counted = samplesType(profile);
  if (counted >= 0 && counted !== type) {
    columns.push({key: 'samples', sort: null, title: 'Samples', wide: true, cell: (row) => formatCount(row.samples)});
  }
  if (profile.tree.other) {
    columns.push(
        {key: 'self_change', sort: 'self_change', title: 'Δ self', wide: false, cell: (row) => formatPoints(row.self_change, 0)},
        {key: 'total_change', sort: 'total_change', title: 'Δ total', wide: true, cell: (row) => formatPoints(row.total_change, 0)});
  }
  return columns;
}

/** Tab-separated, with the values as they are: for a spreadsheet. */
export function tableText(profile: Profile, rows: readonly FunctionRow[], type: number): string {
  const {symbols} = profile;
  const {type: name, unit} = profile.sample_types[type];
  const head = ['function', 'object', 'place', `self (${name} ${unit})`, `total (${name} ${unit})`, 'samples'];
  if (profile.tree.other) head.push('self change (share)', 'total change (share)');
  const line = (row: FunctionRow) => [
    symbols.name[row.symbol], symbols.object[row.symbol], symbols.place[row.symbol], row.self, row.total, row.samples,
    ...(profile.tree.other ? [row.self_change, row.total_change] : []),
  ].map((cell) => String(cell).replace(/[\t\n\r]/g, ' ')).join('\t');
  return [head.join('\t'), ...rows.map(line)].join('\n') + '\n';
}

export function FunctionTable(props: Props) {
  const {profile, type, sort, ascending} = props;
  const scroller = useRef<HTMLDivElement>(null);
  const focus_next = useRef(-1);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const columns = useMemo(() => columnsOf(profile, type), [profile, type]);
  const fills = useMemo(() => symbolFills(profile.symbols), [profile]);
  const colourOf = (row: FunctionRow) => {
    const whole = profile.tree.series[type].total[0];
    const share = whole > 0 ? row.total / whole : 0;
    return css(props.palette[profile.tree.other ? changeFill(changeOf(share, share - row.total_change)) : fills[row.symbol]]);
  };
  const rows = useMemo(() => sortRows(props.rows, sort, ascending, profile.symbols.name),
                       [props.rows, sort, ascending, profile]);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    setHeight(element.clientHeight);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (scroller.current) scroller.current.scrollTop = 0;
    setTop(0);
  }, [rows]);

  const first = Math.max(0, Math.min(Math.floor(top / kRowPx) - kSpareRows, rows.length));
  const last = Math.min(rows.length, Math.ceil((top + height) / kRowPx) + kSpareRows);

  // An arrow key may go to a row that is made only now.
  useLayoutEffect(() => {
    if (focus_next.current < 0) return;
    scroller.current?.querySelector<HTMLElement>(`[data-row="${focus_next.current}"]`)?.focus({preventScroll: true});
    focus_next.current = -1;
  });
  const walk = (event: KeyboardEvent) => {
    const element = scroller.current;
    const from = (event.target as HTMLElement).dataset['row'];
    const steps: Record<string, number> = {ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9};
    const step = steps[event.key];
    if (!element || from === undefined || step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const to = Math.max(0, Math.min(rows.length - 1, Number(from) + step));
    focus_next.current = to;
    const head = kRowPx;
    if (to * kRowPx < element.scrollTop) element.scrollTop = to * kRowPx;
    else if ((to + 1) * kRowPx + head > element.scrollTop + height) element.scrollTop = (to + 1) * kRowPx + head - height;
    setTop(element.scrollTop);
    element.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus({preventScroll: true});
  };

  const header = (key: SortKey | null, title: string, classes: string, numeric: boolean) => (
    <th key={title} scope="col" class={classes}
        aria-sort={key === sort ? (ascending ? 'ascending' : 'descending') : undefined}>
      {key === null ? title : (
        <button class="plain" onClick={() => props.onSort(key)}>
          {!numeric && title}
          <span class="arrow" aria-hidden="true">{key === sort ? (ascending ? '▲' : '▼') : ''}</span>
          {numeric && title}
        </button>
      )}
    </th>
  );
  return (
    <div class="table" ref={scroller} onScroll={() => setTop(scroller.current?.scrollTop ?? 0)} onKeyDown={walk}>
      <table aria-rowcount={rows.length + 1} aria-label="Functions">
        <thead>
          <tr style={{height: `${kRowPx}px`}}>
            {header('name', 'Function', 'function', false)}
            {columns.map((column) => header(column.sort, column.title, `number ${column.wide ? 'wide' : ''}`, true))}
            <th scope="col" class="wide at">Object, file and line</th>
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{height: `${first * kRowPx}px`}} />}
          {rows.slice(first, last).map((row, i) => (
            <tr key={row.symbol} aria-rowindex={first + i + 2} style={{height: `${kRowPx}px`}}>
              <th scope="row" class="function">
                <i style={{background: colourOf(row)}} />
                <button class="plain" data-row={first + i} title={profile.symbols.name[row.symbol]}
                        onClick={() => props.onChoose(row.symbol)}>
                  {profile.symbols.name[row.symbol]}
                </button>
              </th>
              {columns.map((column) =>
                <td key={column.key} class={`number ${column.wide ? 'wide' : ''}`}>{column.cell(row)}</td>)}
              <td class="wide at" title={`${profile.symbols.object[row.symbol]} ${profile.symbols.place[row.symbol]}`}>
                {profile.symbols.object[row.symbol].replace(/^.*\//, '') || '–'}
                <span>{profile.symbols.place[row.symbol]}</span>
              </td>
            </tr>
          ))}
          {last < rows.length && <tr aria-hidden="true" style={{height: `${(rows.length - last) * kRowPx}px`}} />}
        </tbody>
      </table>
    </div>
  );
}
