/* Formulas as HTML, by MathJax. Reads a line of JSON, {tex, display, macros} or {style: true}, and answers with a line. */
"use strict";

const path = `${__dirname}/../../node_modules/mathjax/es5`;
const fontURL = "mathjax/output/chtml/fonts/woff-v2";

async function main() {
  const lines = require("node:readline").createInterface({ input: process.stdin });
  const macros = JSON.parse(process.argv[2]);
  const MathJax = await require(`${path}/node-main.js`).init({
    loader: { paths: { mathjax: path }, load: ["input/tex-full", "output/chtml"] },
    tex: { macros, packages: { "[-]": ["noundefined", "noerrors"] } },
    chtml: { fontURL },
    startup: { typeset: false },
  });
  const { adaptor } = MathJax.startup;
  for await (const line of lines) {
    const { tex, display, style } = JSON.parse(line);
    if (style) {
      console.log(JSON.stringify(adaptor.textContent(MathJax.chtmlStylesheet())));
      continue;
    }
    MathJax.texReset();
    const html = adaptor.outerHTML(MathJax.tex2chtml(tex, { display }));
    MathJax.texReset();
    const spoken = MathJax.tex2mml(tex, { display }).replace(/\s*\n\s*/g, "");
    const words = `<mjx-assistive-mml>${spoken}</mjx-assistive-mml></mjx-container>`;
    const hidden = html.replace("<mjx-math", '<mjx-math aria-hidden="true"').replace(/<\/mjx-container>$/, words);
    console.log(JSON.stringify(hidden.replace(/ id="[^"]*"/g, "")));
  }
}

main();
