// What the colours mean. Its height is always reserved.

import {kKindNames, kKinds} from '../engine/kinds';
import {
  changeFill, css, kFillFaint, kFillFound, kFillPartly, kFillRun, kindFill, Rgb,
} from '../engine/palette';

export type Colouring = 'kinds' | 'search' | 'change' | 'change-search';

export function Legend({palette, colouring, boxes, other_title}: {
  palette: readonly Rgb[];
  colouring: Colouring;
  /** False where there are no boxes to explain, only colours. */
  boxes: boolean;
  other_title: string;
}) {
  const swatch = (fill: number, text: string) => (
    <span class="key" key={text}><i style={{background: css(palette[fill])}} />{text}</span>
  );
  return (
    <div class="legend" aria-label="Colours">
      {colouring === 'kinds' && kKinds.map((kind, i) => swatch(kindFill(i, 0), kKindNames[kind]))}
      {colouring === 'kinds' && boxes && swatch(kFillRun, 'small boxes, merged')}
      {colouring === 'search' && [
        swatch(kFillFound, 'matches'), swatch(kFillPartly, 'small boxes, some match'), swatch(kFillFaint, 'does not match'),
      ]}
      {(colouring === 'change' || colouring === 'change-search') && (
        <span class="key">
          less than in {other_title}
          <span class="scale">
            {[-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1].map((change) =>
              <i key={change} style={{background: css(palette[changeFill(change)])}} />)}
          </span>
          more{boxes && '; width = mean of both shares'}
        </span>
      )}
      {colouring === 'change-search' && swatch(kFillFaint, 'does not match')}
      {boxes && <span class="key"><em>slanted</em> = inlined</span>}
    </div>
  );
}
