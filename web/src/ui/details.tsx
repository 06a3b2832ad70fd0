// The two lines under the graph: what is under the pointer, else what the keyboard is on. Always there.

import {Hit} from '../engine/frame';
import {formatCount, formatPoints, formatShare, formatValue} from '../engine/format';
import {kindOf, kKindNames} from '../engine/kinds';
import {Profile} from '../profile/parse';
import {samplesType} from '../profile/rows';
import {Cell, useCell} from './cell';
import {GraphModel} from './graph_model';

interface Props {
  profile: Profile;
  model: GraphModel;
  type: number;
  hover: Cell<Hit | null>;
  /** Box id shown when nothing is under the pointer. */
  resting: number;
}

export function Details({profile, model, type, hover, resting}: Props) {
  const hovered = useCell(hover);
  const hit = hovered && hovered.last < model.boxes.id.length ? hovered : null;
  const run = hit && hit.last > hit.first ? hit : null;
  const id = hit ? model.boxes.id[hit.box] : resting;
  if (id < 0) return <div class="details" />;
  const facts = model.facts(id);
  const {symbols} = profile;
  const {unit} = profile.sample_types[type];
  const name = symbols.name[facts.symbol];
  const object = symbols.object[facts.symbol];
  const whole = profile.tree.series[type].total[0];
  const mine = facts.series[type];
  const counted = samplesType(profile);
  const other = facts.other?.[type];
  const other_whole = profile.tree.other ? profile.tree.other[type].total[0] : 0;
  return (
    <div class="details" aria-live={hit ? 'off' : 'polite'}>
      <div class="name">
        {run && <span class="tag">{formatCount(run.last - run.first + 1)} small boxes, the largest:</span>}
        <strong title={name}>{name}</strong>
        {facts.inlined && <span class="tag">inlined</span>}
        <span class="place" title={`${symbols.place[facts.symbol]} ${object}`}>
          {symbols.place[facts.symbol]}
          {object !== '' && <span class="object">{object}</span>}
          {id !== 0 && <span class="object">{kKindNames[kindOf(name, object)]}</span>}
        </span>
      </div>
      <div class="figures">
        <span><b>{formatShare(mine.total, whole)}</b> of all</span>
        <span>total <b>{formatValue(mine.total, unit)}</b></span>
        <span>self <b>{formatValue(mine.self, unit)}</b> ({formatShare(mine.self, whole)})</span>
        {counted >= 0 && counted !== type && <span>samples <b>{formatCount(facts.series[counted].total)}</b></span>}
        {other && (
          <span>{profile.other_title}: <b>{formatValue(other.total, unit)}</b> ({formatShare(other.total, other_whole)})</span>
        )}
        {other && (
          <span>change <b>{formatPoints(whole > 0 ? mine.total / whole : 0, other_whole > 0 ? other.total / other_whole : 0)}</b></span>
        )}
      </div>
    </div>
  );
}
