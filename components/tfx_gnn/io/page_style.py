"""How every page looks that a person reads, reports and the server's own: colours, light and dark, and text."""

from __future__ import annotations

PAGE_STYLE = """\
:root {
  color-scheme: light dark;
  --surface: #fcfcfa; --raised: #f3f2ee; --line: #dcdad3; --ink: #1d1d1b; --muted: #5a5955; --faint: #85837c;
  --fill: #c9def6; --good: #17663f; --good-surface: #e0f3e8; --bad: #a32020; --bad-surface: #fbe4e1;
  --focus: #1f5fb4; --warning: #9a3412; --warning-surface: #fdebdc; --warning-fill: #f8c79f;
  --series-0: #2a78d6; --series-1: #12805a; --series-2: #b15f00; --series-3: #6a4fc4; --series-4: #c93a3a;
  --series-5: #a8397f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --surface: #191918; --raised: #242422; --line: #3b3a37; --ink: #f0efea; --muted: #b3b1a9; --faint: #8b8982;
    --fill: #24466e; --good: #7ad9a5; --good-surface: #16311f; --bad: #ff9d94; --bad-surface: #40191a;
    --focus: #8ebcf7; --warning: #fdba74; --warning-surface: #3b2314; --warning-fill: #7c3f12;
    --series-0: #62a2ee; --series-1: #3cc492; --series-2: #e5a53a; --series-3: #a897f2; --series-4: #f07575;
    --series-5: #e588bf;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; background: var(--surface); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p, ul { max-width: 46rem; margin: .5rem 0; overflow-wrap: anywhere; }
li { margin: .25rem 0; }
a { color: inherit; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; border-radius: 3px; }
code { font: .875em ui-monospace, monospace; overflow-wrap: anywhere; }
.muted { color: var(--muted); font-weight: 400; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .125rem 1rem; margin: .5rem 0; }
dt { color: var(--muted); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .375rem 0; }
"""
"""Style sheet of the elements that all pages have; it loads nothing."""
