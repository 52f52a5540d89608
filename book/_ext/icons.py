"""The few icons of the pages, in a font of their own: the theme loads two thousand, 700 KB compressed, for a dozen."""

import re
from pathlib import Path

from fontTools import subset, ttLib
from sphinx.application import Sphinx

SCRIPT = re.compile(r'\s*<script (?:defer )?src="[^"]*scripts/fontawesome\.js[^"]*"[^>]*></script>')
FACE = re.compile(r"@font-face\{[^}]*Font Awesome[^}]*\}")
RULE = re.compile(r"((?:\.fa-[\w-]+:before,?)+)\{content:\"\\([0-9a-f]+)\"\}")
DYNAMIC = {"fa-xmark"}  # by scripts of the theme
FONTS = {"Free": ("fa-solid-900.ttf", 900, "icons.woff"), "Brands": ("fa-brands-400.ttf", 400, "brands.woff")}


def codes_of(style: str, names: set[str]) -> dict[str, int]:
    """The place in the font of each icon that is named."""
    rules = {name: int(code, 16) for group, code in RULE.findall(style) for name in re.findall(r"fa-[\w-]+", group)}
    return {name: rules[name] for name in sorted(names) if name in rules}


def face_of(kind: str, fonts: Path, static: Path, codes: set[int]) -> str:
    """Write a font with the icons that it has among these; returns its rule, which is empty where it has none."""
    file, weight, name = FONTS[kind]
    font = ttLib.TTFont(fonts / file)
    if not codes & font.getBestCmap().keys():
        return ""
    subsetter = subset.Subsetter()
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    font.flavor = "woff"
    font.save(static / name)
    family = f'font-family:"Font Awesome 6 {kind}";font-weight:{weight}'
    return f'@font-face{{{family};src:url(../{name}) format("woff")}}'


def keep_used_icons(app: Sphinx, error: Exception | None) -> None:
    """Leave out the icons that no page shows, and the script that would draw them."""
    if error or app.builder.name != "html":
        return
    static, names = Path(app.outdir) / "_static", set(DYNAMIC)
    for page in Path(app.outdir).glob("*.html"):
        html = page.read_text(encoding="utf-8")
        for classes in re.findall(r'class="([^"]*\bfa-[^"]*)"', html):
            names |= set(classes.split())
        page.write_text(SCRIPT.sub("", html), encoding="utf-8")
    path = static / "styles" / "pydata-sphinx-theme.css"
    style = path.read_text(encoding="utf-8")
    used = codes_of(style, names)
    others = {ord(sign) for sign in re.findall(r"[\ue000-\uf8ff]", style)} | {0xF107}  # of rules for the theme's boxes
    fonts = static / "vendor" / "fontawesome" / "webfonts"
    faces = [face_of("Free", fonts, static, others | {*used.values()})]
    faces += [face_of("Brands", fonts, static, {*used.values()})]  # of GitHub, where the repository is there
    for file in fonts.iterdir():
        file.unlink()
    style = RULE.sub(lambda rule: rule[0] if set(re.findall(r"fa-[\w-]+", rule[1])) & used.keys() else "", style)
    path.write_text("".join(faces) + FACE.sub("", style), encoding="utf-8")
    (static / "scripts" / "fontawesome.js").unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", keep_used_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
