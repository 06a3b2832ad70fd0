// The keys, and how to read the picture.

import {useEffect, useRef} from 'preact/hooks';

const kKeys: ReadonlyArray<[string, string]> = [
  ['/', 'search function names (regular expression; a capital letter makes case count)'],
  ['Esc', 'undo one step'],
  ['← → ↑ ↓', 'walk from box to box'],
  ['Enter', 'zoom to the box (a click does the same)'],
  ['s', 'callers and callees of the box: sandwich'],
  ['m', 'menu of the box (right-click does the same)'],
  ['i  f  t', 'icicle, flame, table'],
  ['r', 'fold recursion'],
  ['d', 'dark or light'],
  ['?', 'this help'],
];

export function Help({open, onClose}: {open: boolean; onClose: () => void}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open && dialog.current?.open) dialog.current.close();
  }, [open]);
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={onClose}
            onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}>
      <div class="sheet">
        <h2>Keys</h2>
        <dl class="keys">
          {kKeys.map(([key, text]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={text}>{text}</dd>])}
        </dl>
        <h3>Reading it</h3>
        <p>
          A box is a function; the box next to it towards the root called it. Width is its value with everything that it
          called. Order from left to right means nothing. Boxes too narrow to see are merged into one grey box; click it to
          zoom in. The table lists the same functions.
        </p>
        <form method="dialog"><button>Close</button></form>
      </div>
    </dialog>
  );
}
