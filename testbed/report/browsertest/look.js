// What the tests ask a page. Each function returns the faults that it finds, as sentences.
globalThis.look = (() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const text = e => e.textContent.replace(/\s+/g, ' ').trim();
  const short = e => `<${e.tagName.toLowerCase()}> ${JSON.stringify(text(e).slice(0, 50))}`;

  const document_ = () => {
    const faults = [];
    if (!document.title.trim()) faults.push('the page has no title');
    if (!document.documentElement.lang) faults.push('the page has no language');
    const ids = new Set();
    for (const e of all('[id]')) {
      if (ids.has(e.id)) faults.push(`the id ${e.id} is there twice`);
      ids.add(e.id);
    }
    let level = 0;
    for (const h of all('h1,h2,h3,h4,h5,h6')) {
      const is = +h.tagName[1];
      if (level === 0 && is !== 1) faults.push(`the first heading is ${short(h)}`);
      if (level > 0 && is === 1) faults.push(`a second first heading: ${short(h)}`);
      if (is > level + 1) faults.push(`${short(h)} leaves out a heading above it`);
      if (!text(h)) faults.push(`an empty heading ${h.tagName}`);
      level = is;
    }
    return faults;
  };

  // An image must say what it is to those who cannot see it, and a region what it holds.
  const named = e => {
    const by = e.getAttribute('aria-labelledby');
    if (by) return by.split(/\s+/).every(id => document.getElementById(id)?.textContent.trim());
    return Boolean((e.getAttribute('aria-label') || e.getAttribute('alt') || '').trim());
  };
  const names = () => {
    const faults = [];
    for (const e of all('svg')) if (e.getAttribute('role') !== 'img') faults.push(`a drawing without the role of an image: ${short(e)}`);
    for (const e of all('svg,img,[role=region]')) if (!named(e)) faults.push(`nothing names ${short(e)}`);
    for (const e of all('table')) if (!e.caption || !text(e.caption)) faults.push(`a table without a caption: ${short(e)}`);
    for (const e of all('th')) if (!e.scope) faults.push(`a head without a scope: ${short(e)}`);
    return faults;
  };

  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;

  // Words of a figure lie within it, and not on each other.
  const words = (svg, name) => {
    const faults = [], box = svg.getBoundingClientRect();
    const texts = all('text', svg).map(e => ({ says: text(e), box: e.getBoundingClientRect() }));
    for (const t of texts) if (!inside(t.box, box)) faults.push(`${name}: "${t.says}" sticks out of the figure`);
    const letters = Math.min(...all('text', svg).map(e => parseFloat(getComputedStyle(e).fontSize))) * box.width / svg.viewBox?.baseVal.width;
    if (letters < 9.5) faults.push(`${name}: letters ${letters.toFixed(1)} pixels high are too small to be read`);
    texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
      if (overlap(a.box, b.box)) faults.push(`${name}: "${a.says}" lies on "${b.says}"`);
    }));
    return faults;
  };

  const table = (figure, svg, name) => {
    const t = figure.querySelector('table');
    if (!t) return [`${name}: no table beside it`];
    if (!t.checkVisibility()) return [`${name}: its table cannot be seen`];
    const faults = [], head = all('thead th', t).map(text), rows = all('tbody tr', t).map(r => [...r.cells].map(text));
    if (!rows.length) faults.push(`${name}: its table is empty`);
    for (const r of rows) {
      if (r.length !== head.length) faults.push(`${name}: a row of its table has ${r.length} cells under ${head.length} heads`);
      if (r.some(c => !c) || head.some(c => !c)) faults.push(`${name}: a cell of its table is empty`);
    }
    if (!rows.some(r => r.slice(1).some(c => /\d/.test(c)))) faults.push(`${name}: its table has no number`);
    const said = new Set([...head, ...rows.map(r => r[0])]);
    for (const s of all('g.s:not(.dots)', svg)) {
      if (!said.has(s.dataset.series)) faults.push(`${name}: its table does not have ${s.dataset.series}`);
    }
    return faults;
  };

  // All details are open when figures are looked at.
  const figures = () => {
    for (const d of all('details')) d.open = true;
    const faults = [], found = all('figure');
    if (!found.length) faults.push('the page has no figure');
    for (const f of found) {
      const drawn = all('svg,img', f), svg = drawn.find(s => s.checkVisibility()) ?? drawn[0], name = 'figure ' + (f.id || '?');
      if (!svg) { faults.push(`${name}: nothing is drawn`); continue; }
      const box = svg.getBoundingClientRect();
      if (!svg.checkVisibility() || box.width < 300 || box.height < 150) faults.push(`${name}: ${Math.round(box.width)} × ${Math.round(box.height)} pixels can be seen`);
      if (box.right > f.getBoundingClientRect().right + 1) faults.push(`${name}: it is wider than the page`);
      if (svg.tagName === 'svg' && !all('g.s path', svg).some(p => p.getTotalLength() > 1)) faults.push(`${name}: it is empty`);
      if (!text(f.querySelector('figcaption') || document.createElement('p'))) faults.push(`${name}: it has no caption`);
      faults.push(...words(svg, name), ...table(f, svg, name));
    }
    return faults;
  };

  // Words that are below each other can hardly be read.
  const narrow = () => all('p,li,dd,td,th,caption,summary,figcaption').filter(e => e.checkVisibility() && text(e).length > 12 &&
    e.getBoundingClientRect().width < 70).map(e => `${Math.round(e.getBoundingClientRect().width)} pixels are too narrow for ${short(e)}`);

  const wide = () => {
    const has = document.documentElement.scrollWidth, may = document.documentElement.clientWidth;
    if (has <= may) return [];
    const by = all('body *').filter(e => e.getBoundingClientRect().right > may + 1 && !e.closest('.wide,pre')).map(short)[0];
    return [`the page is ${has} pixels wide in a window of ${may}, by ${by}`];
  };

  // Every text of the page, line by line, with where it is. Only the middle of a line counts: how
  // far a font's boxes reach above and below its letters differs from font to font.
  const written = () => {
    const lines = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let n; (n = walk.nextNode());) {
      const e = n.parentElement;
      if (!n.data.trim() || !e.checkVisibility() || e.closest('option,title,noscript,.hidden,.skip')) continue;
      range.selectNodeContents(n);
      for (const r of range.getClientRects()) {
        if (r.width < 1) continue;
        lines.push({ e, n, says: n.data.trim().slice(0, 40), left: r.left, right: r.right, top: r.top + r.height / 4, bottom: r.bottom - r.height / 4 });
      }
    }
    return lines;
  };

  const holders = 'button,th,td,dd,dt,li,figcaption,p,h1,h2,summary,label,svg,nav,header,footer,main';

  // Nothing lies on another thing, is cut off, or is beyond what holds it. What scrolls holds it all.
  const crowded = () => {
    scrollTo(0, 0);
    const faults = new Set(), lines = written(), bar = document.querySelector('footer');
    for (const l of lines) {
      const holder = l.e.closest(holders), box = holder?.getBoundingClientRect();
      if (box && (l.left < box.left - 1 || l.right > box.right + 1)) faults.add(`"${l.says}" is beyond its ${holder.tagName.toLowerCase()}`);
      for (let e = l.e; e !== document.body; e = e.parentElement) {
        const s = getComputedStyle(e), b = e.getBoundingClientRect(), hides = v => v === 'hidden' || v === 'clip';
        if (hides(s.overflowX) && (l.left < b.left - 1 || l.right > b.right + 1) || hides(s.overflowY) && (l.top < b.top || l.bottom > b.bottom)) faults.add(`"${l.says}" is cut off`);
      }
    }
    for (const e of all('input:not([type=range])')) if (e.scrollWidth > e.clientWidth + 1) faults.add(`what is in the field ${e.name} is cut off`);
    const boxes = all('button,input,select').filter(e => e.checkVisibility()).map(e => {
      const r = e.getBoundingClientRect();
      return { e, says: text(e).slice(0, 20) || e.name || e.type, left: r.left, right: r.right, top: r.top, bottom: r.bottom };
    });
    const below = [...lines, ...boxes].sort((a, b) => a.top - b.top);
    below.forEach((a, i) => {
      for (let k = i + 1; k < below.length && below[k].top < a.bottom - 1; k++) {
        const b = below[k];
        if (a.n && a.n === b.n || a.e.contains(b.e) || b.e.contains(a.e) || bar && bar.contains(a.e) !== bar.contains(b.e)) continue;
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1) faults.add(`"${a.says}" lies on "${b.says}"`);
      }
    });
    scrollTo(0, document.documentElement.scrollHeight);
    const last = document.querySelector('main').lastElementChild;
    if (bar && last && last.getBoundingClientRect().bottom > bar.getBoundingClientRect().top + 1) faults.add(`the bar hides the end of the page by ${Math.round(last.getBoundingClientRect().bottom - bar.getBoundingClientRect().top)} pixels`);
    scrollTo(0, 0);
    return [...faults].slice(0, 20);
  };

  // Colours, as [red, green, blue, alpha].
  const colour = s => {
    const m = /^rgba?\(([^)]*)\)$/.exec(s);
    if (!m) return [0, 0, 0, 0];
    const v = m[1].split(/[\s,\/]+/).map(Number);
    return [v[0], v[1], v[2], v[3] ?? 1];
  };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const known = new Map(), fading = new Map(); // of the elements that were asked before
  const once = (of, e, find) => of.has(e) ? of.get(e) : of.set(e, find()).get(e);
  const faded = e => e ? once(fading, e, () => getComputedStyle(e).opacity * faded(e.parentElement)) : 1;
  const behind = e => once(known, e, () => {
    if (!e) return matchMedia('(prefers-color-scheme:dark)').matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
    const own = colour(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(e.parentElement));
  });
  const light = c => {
    const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = () => {
    known.clear();
    fading.clear();
    const faults = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let n; (n = walk.nextNode());) {
      const e = n.parentElement;
      if (!n.data.trim() || !e.checkVisibility() || e.closest('style,title,desc')) continue;
      const s = getComputedStyle(e), drawn = e.closest('svg');
      const ink = colour(drawn ? s.fill : s.color);
      if (drawn) ink[3] *= +s.fillOpacity;
      ink[3] *= faded(e);
      const back = behind(e), front = over(ink, back);
      const [x, y] = [light(front), light(back)].sort((a, b) => b - a);
      const ratio = (x + 0.05) / (y + 0.05);
      if (ratio < 4.5) faults.add(`contrast of ${ratio.toFixed(1)}: ${short(e)}`);
    }
    return [...faults];
  };

  // What the keyboard must come to: everything that can be opened, followed or scrolled.
  const stops = () => all('a[href],summary,.wide,pre').filter(e => e.checkVisibility() &&
    (e.matches('a[href],summary') || e.scrollWidth > e.clientWidth + 1));
  const where = () => {
    const e = document.activeElement;
    return !e || e === document.body ? -1 : all('*').indexOf(e);
  };
  const wanted = () => stops().map(e => ({ at: all('*').indexOf(e), is: short(e) }));

  // On paper nothing can be opened or scrolled.
  const paper = () => {
    const faults = [];
    for (const f of all('figure')) {
      const t = f.querySelector('table');
      if (t && !(t.checkVisibility() && t.getBoundingClientRect().height)) faults.push(`figure ${f.id}: its table is not printed`);
      const drawn = all('svg,img', f);
      if (drawn.length && !drawn.some(s => s.checkVisibility() && s.getBoundingClientRect().height)) faults.push(`figure ${f.id}: it is not printed`);
    }
    for (const t of all('figure table')) {
      const has = Math.round(t.getBoundingClientRect().right), may = document.documentElement.clientWidth;
      if (has > may + 1) faults.push(`${has} pixels of ${may} of paper: the table of ${t.closest('figure').id}`);
    }
    known.clear();
    const back = behind(document.body);
    if (light(back) < 0.9) faults.push('paper is printed dark');
    return faults;
  };

  const cells = id => {
    const t = document.getElementById(id)?.querySelector('table');
    return t ? [...t.rows].map(r => [...r.cells].map(text)) : [];
  };
  return { basics: () => [...document_(), ...names()], whole: () => [...document_(), ...names(), ...figures()], wide, narrow, crowded, contrast, wanted, where, paper, cells };
})();
