/* The frame of the slides (tools/slides.py). In the address: ?print-pdf, and showNotes=separate-page with it. */
"use strict";

const asked = new URLSearchParams(location.search);

Reveal.initialize({
  width: 1280,
  height: 720,
  margin: 0.03,
  center: false,
  display: "flex",
  hash: !asked.has("print-pdf"),
  slideNumber: "c/t",
  respondToHashChanges: false, // a late one would turn a page back
  transition: "none",
  pdfMaxPagesPerSlide: 1,
  showNotes: asked.get("showNotes") ?? false,
  plugins: [RevealNotes],
});
