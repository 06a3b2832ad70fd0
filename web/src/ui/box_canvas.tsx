// The canvas of boxes in rows: draws what is in view, finds what is under the pointer, outlines the box
// under it and the selected one. It knows nothing about profiles beyond the model's look.

import {useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState} from 'preact/hooks';
import {Boxes, rowOf} from '../engine/boxes';
import {BoxLook, composeFrame, Hit, hitAt, LabelMeasure, scaleOf, View} from '../engine/frame';
import {charMeasure, paintFrame} from '../engine/paint';
import {Rgb} from '../engine/palette';
import {Cell, useCell} from './cell';

export const kRowPx = 20;

interface Props {
  boxes: Boxes;
  look: BoxLook;
  palette: readonly Rgb[];
  x_from: number;
  x_to: number;
  from_bottom: boolean;
  first_row: number;
  /** Box that the keyboard is on, -1 = none. */
  selected: number;
  hover: Cell<Hit | null>;
  label: string;
  onPick(hit: Hit): void;
  onMenu(hit: Hit, x: number, y: number): void;
}

interface Size {
  width: number;
  height: number;
  density: number;
}

interface Outline {
  left: number;
  top: number;
  width: number;
}

export function BoxCanvas(props: Props) {
  const {boxes, look, palette, x_from, x_to, from_bottom, first_row, selected, hover} = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const measure = useRef<LabelMeasure | null>(null);
  const [size, setSize] = useState<Size>({width: 0, height: 0, density: 1});
  const offset_px = from_bottom ? Math.max(0, size.height - boxes.rows * kRowPx) : 0;

  const viewNow = useCallback((): View => ({
    x_from, x_to, width_px: size.width, height_px: size.height, row_px: kRowPx,
    scroll_px: (scroller.current?.scrollTop ?? 0) - offset_px,
  }), [x_from, x_to, size, offset_px]);

  const draw = useCallback(() => {
    const surface = canvas.current;
    const context = surface?.getContext('2d');
    if (!surface || !context || size.width === 0) return;
    measure.current ??= charMeasure(context);
    const frame = composeFrame(boxes, viewNow(), look, measure.current);
    paintFrame(context, frame, {width_px: size.width, height_px: size.height, density: size.density}, palette);
    surface.dataset['boxes'] = String(frame.boxes);
    surface.dataset['merged'] = String(frame.merged);
    surface.dataset['rectangles'] = String(frame.count);
  }, [boxes, look, palette, size, viewNow]);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const read = () => setSize((old) => {
      const next = {width: element.clientWidth, height: element.clientHeight, density: window.devicePixelRatio || 1};
      return old.width === next.width && old.height === next.height && old.density === next.density ? old : next;
    });
    read();
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const surface = canvas.current;
    if (!surface) return;
    surface.width = Math.max(1, Math.round(size.width * size.density));
    surface.height = Math.max(1, Math.round(size.height * size.density));
  }, [size]);

  // A new picture starts where its first row is; the same picture keeps its place.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element || size.height === 0) return;
    element.scrollTop = from_bottom ? element.scrollHeight
        : first_row === 0 ? 0 : first_row * kRowPx - (size.height - kRowPx) / 2;
  }, [boxes, from_bottom, first_row, size.height > 0]);

  useLayoutEffect(draw, [draw]);

  useEffect(() => {
    const element = scroller.current;
    if (!element || selected < 0) return;
    const top = rowOf(boxes, selected) * kRowPx;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + kRowPx > element.scrollTop + size.height) element.scrollTop = top + kRowPx - size.height;
  }, [selected, boxes]);

  const hitOf = (event: MouseEvent): Hit | null => {
    const place = canvas.current?.getBoundingClientRect();
    return place ? hitAt(boxes, viewNow(), event.clientX - place.left, event.clientY - place.top) : null;
  };
  const outlineOf = (first: number, last: number, row: number): Outline | null => {
    const scale = scaleOf(viewNow());
    const left = Math.max(0, (boxes.x[first] - x_from) * scale);
    const right = Math.min(size.width, (boxes.x[last] + boxes.width[last] - x_from) * scale);
    return right > left ? {left, top: row * kRowPx + offset_px, width: right - left} : null;
  };
  const move = (event: MouseEvent) => {
    const hit = hitOf(event);
    const old = hover.get();
    if (hit && old && hit.first === old.first && hit.last === old.last) return;
    hover.set(hit);
  };

  return (
    <div class="boxes" ref={scroller} onScroll={draw} tabIndex={0} role="group" aria-label={props.label}>
      <div class="boxes-sheet" style={{height: `${boxes.rows * kRowPx + offset_px}px`}}>
        <canvas
          ref={canvas} style={{width: `${size.width}px`, height: `${size.height}px`}} aria-hidden="true"
          onMouseMove={move} onMouseLeave={() => hover.set(null)}
          onClick={(event) => {
            const hit = hitOf(event);
            if (hit) props.onPick(hit);
          }}
          onContextMenu={(event) => {
            const hit = hitOf(event);
            if (!hit) return;
            event.preventDefault();
            props.onMenu(hit, event.clientX, event.clientY);
          }} />
        <HoverOutline hover={hover} outlineOf={outlineOf} boxes={boxes} />
        {selected >= 0 && <OutlineMark kind="selected" at={outlineOf(selected, selected, rowOf(boxes, selected))} />}
      </div>
    </div>
  );
}

function HoverOutline(props: {
  hover: Cell<Hit | null>;
  boxes: Boxes;
  outlineOf: (first: number, last: number, row: number) => Outline | null;
}) {
  const hit = useCell(props.hover);
  // The picture may have changed under a pointer that stands still.
  const valid = useMemo(() => hit !== null && hit.last < props.boxes.x.length, [hit, props.boxes]);
  return hit && valid ? <OutlineMark kind="hovered" at={props.outlineOf(hit.first, hit.last, hit.row)} /> : null;
}

function OutlineMark({kind, at}: {kind: string; at: Outline | null}) {
  if (!at) return null;
  const style = {
    transform: `translate(${at.left}px, ${at.top}px)`, width: `${Math.max(at.width, 3)}px`, height: `${kRowPx - 1}px`,
  };
  return <div class={`outline ${kind}`} style={style} />;
}
