// Pictures of SVG files: reads [{ from, to }] and the fonts as JSON from its input, writes each as PNG at twice its size.
const { readFileSync, renameSync, writeFileSync } = require("node:fs");
const { renderAsync } = require("@resvg/resvg-js");

const { files, fonts } = JSON.parse(readFileSync(0, "utf8"));
const font = {
  fontFiles: fonts,
  loadSystemFonts: false,
  defaultFontFamily: "DejaVu Sans",
  sansSerifFamily: "DejaVu Sans",
};

async function work() {
  for (let next = files.pop(); next; next = files.pop()) {
    const image = await renderAsync(readFileSync(next.from, "utf8"), { font, fitTo: { mode: "zoom", value: 2 } });
    writeFileSync(`${next.to}.new`, image.asPng());
    renameSync(`${next.to}.new`, next.to);
  }
}

Promise.all([work(), work()]);
