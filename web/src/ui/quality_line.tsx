// Can I trust this? One line that is always there; a click opens the reasons and what to do.

import {useRef} from 'preact/hooks';
import {formatCount, formatShare, formatValue} from '../engine/format';
import {Counted, Profile, Quality} from '../profile/parse';

function sum(list: readonly Counted[]): number {
  return list.reduce((total, entry) => total + entry.count, 0);
}

export function QualityLine({profile, type}: {profile: Profile; type: number}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const {quality, pruned} = profile;
  const whole = profile.tree.series[type].total[0];
  const left_out = pruned && pruned.nodes > 0 && whole > 0
      ? `${formatCount(pruned.nodes)} small nodes left out (${formatShare(pruned.total[type] ?? 0, whole)})` : '';
  if (!quality) {
    return (
      <div class="quality unknown">
        <span>Quality not known: the profile does not say how much was captured, lost or cut.{left_out && ` ${left_out}.`}</span>
      </div>
    );
  }
  const lost = sum(quality.lost);
  const cut = sum(quality.cut);
  const stacks = (quality.complete ?? 0) + cut;
  const unnamed = sum(quality.unsymbolized);
  const frames = (quality.symbolized ?? 0) + unnamed;
  return (
    <div class={`quality ${lost > 0 ? 'losses' : ''}`}>
      <button class="plain" aria-haspopup="dialog" onClick={() => dialog.current?.showModal()}
              title="Show the reasons">
        <Mark good={lost === 0} />
        <span>{formatCount(quality.captured)} captured</span>
        <span>{formatCount(quality.kept)} kept ({formatShare(quality.kept, quality.captured)})</span>
        <strong class={lost > 0 ? 'bad' : ''}>{formatCount(lost)} lost</strong>
        {stacks > 0 && <span>{formatShare(cut, stacks)} cut stacks</span>}
        {frames > 0 && <span>{formatShare(unnamed, frames)} of frames without a name</span>}
        <span class="more" aria-hidden="true">details</span>
      </button>
      {left_out && <span class="left-out">{left_out}</span>}
      <dialog ref={dialog} aria-label="Quality of this profile"
              onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}>
        <div class="sheet">
          <h2>Can I trust this?</h2>
          <QualityReasons quality={quality} />
          {pruned && pruned.nodes > 0 && <p>
            {formatCount(pruned.nodes)} nodes were too small to be drawn and were left out:{' '}
            {formatValue(pruned.total[type] ?? 0, profile.sample_types[type].unit)} in all. Totals include them.
          </p>}
          <form method="dialog"><button>Close</button></form>
        </div>
      </dialog>
    </div>
  );
}

function Mark({good}: {good: boolean}) {
  return <span class={`mark ${good ? 'good' : 'bad'}`} aria-hidden="true">{good ? '✓' : '!'}</span>;
}

function QualityReasons({quality}: {quality: Quality}) {
  const gap = quality.captured - quality.kept - sum(quality.lost);
  return (
    <>
      <p>
        {formatCount(quality.captured)} captured = {formatCount(quality.kept)} kept + {formatCount(sum(quality.lost))} lost
        {gap !== 0 && <strong class="bad"> ({formatCount(Math.abs(gap))} unaccounted for)</strong>}.
      </p>
      <Reasons title="Lost" list={quality.lost} whole={quality.captured} none="Nothing was lost." />
      {quality.complete !== null &&
        <Reasons title="Stacks cut before their end" list={quality.cut} whole={quality.complete + sum(quality.cut)}
                 none="Every stack is complete." />}
      {quality.symbolized !== null &&
        <Reasons title="Frames without a name" list={quality.unsymbolized}
                 whole={quality.symbolized + sum(quality.unsymbolized)} none="Every frame has a name." />}
    </>
  );
}

function Reasons({title, list, whole, none}: {title: string; list: readonly Counted[]; whole: number; none: string}) {
  return (
    <section>
      <h3>{title}</h3>
      {list.length === 0 ? <p>{none}</p> : (
        <table class="reasons"><tbody>
          {list.map((entry) => (
            <tr key={entry.label}>
              <td class="number">{formatCount(entry.count)}</td>
              <td class="number">{formatShare(entry.count, whole)}</td>
              <td>{entry.label || 'reason not given'}{entry.remedy && <em> {entry.remedy}</em>}</td>
            </tr>
          ))}
        </tbody></table>
      )}
    </section>
  );
}
