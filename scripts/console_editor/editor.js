/*! Bundled by `make console` from scripts/console_editor: change it there. Holds CodeMirror, MIT License; see NOTICE. */

// The element <yaml-editor> of the console: CodeMirror in a shadow tree. `make console` bundles it into the file of the
// same name among the console's static files.
//
// The shadow tree lets CodeMirror adopt its style sheets; in the page itself it would insert <style> elements, which the
// Content-Security-Policy refuses.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { drawSelection, EditorView, gutter, GutterMarker, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const SYMBOLS = { error: "✕", warning: "!" };

class MarkOfLine extends GutterMarker {
  constructor(level) {
    super();
    this.level = level;
    this.elementClass = level;
  }

  eq(other) {
    return this.level === other.level;
  }

  toDOM() {
    return document.createTextNode(SYMBOLS[this.level]);
  }
}

const setMarks = StateEffect.define();
const marksField = StateField.define({
  create: () => RangeSet.empty,
  update(marks, transaction) {
    let current = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) current = effect.value;
    }
    return current;
  },
});

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--focus)" },
  { tag: [tags.string, tags.content], color: "var(--ink)" },
  { tag: [tags.comment, tags.meta], color: "var(--quiet)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
    lineHeight: "20px",
  },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { background: "var(--surface)", color: "var(--quiet)", borderRight: "1px solid var(--edge)" },
  ".marks": { width: "16px", textAlign: "center" },
  ".marks .error": { color: "var(--bad)", fontWeight: "700" },
  ".marks .warning": { color: "var(--care)", fontWeight: "700" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--by-1)",
  },
});

class YamlEditor extends HTMLElement {
  #view;

  connectedCallback() {
    if (this.#view) return;
    const root = this.attachShadow({ mode: "open", delegatesFocus: true });
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.append(parent);
    this.#view = new EditorView({ root, parent, state: this.#stateOf(this.textContent) });
  }

  #stateOf(text) {
    return EditorState.create({
      doc: text,
      extensions: [
        marksField,
        gutter({ class: "marks", markers: (view) => view.state.field(marksField) }),
        lineNumbers(),
        history(),
        drawSelection(),
        yaml(),
        syntaxHighlighting(colors),
        theme,
        // Tab is not taken: it leads to the next control, as everywhere on the page.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({
          "aria-label": this.getAttribute("label"), "aria-multiline": "true", tabindex: "0",
        }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) this.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    });
  }

  /** The text. Setting it forgets what could be undone. */
  get value() {
    return this.#view.state.doc.toString();
  }

  set value(text) {
    this.#view.setState(this.#stateOf(text));
  }

  /** The text that is selected. */
  get selection() {
    const { from, to } = this.#view.state.selection.main;
    return this.#view.state.sliceDoc(from, to);
  }

  /** Mark lines: an array of {line, level}, with lines from 1, and the level "error" or "warning". */
  set marks(marks) {
    const { doc } = this.#view.state;
    const levels = new Map();
    for (const { line, level } of marks) {
      if (line <= doc.lines && levels.get(line) !== "error") levels.set(line, level);
    }
    const ranges = [...levels].map(([line, level]) => new MarkOfLine(level).range(doc.line(line).from));
    this.#view.dispatch({ effects: setMarks.of(RangeSet.of(ranges, true)) });
  }

  /** Select a line, counted from 1, and scroll to it. */
  goTo(line) {
    const { doc } = this.#view.state;
    const { from, to } = doc.line(Math.min(line, doc.lines));
    this.#view.dispatch({
      selection: { anchor: from, head: to },
      effects: EditorView.scrollIntoView(from, { y: "center" }),
    });
    this.#view.focus();
  }
}

customElements.define("yaml-editor", YamlEditor);
