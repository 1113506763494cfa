// The paths of an iteration's microbatches: on a map where all sites are among the ten locations, and by stage.
'use strict';

// Rough outlines of the continents, degrees east and north: enough to see where a site lies.
const kLand = [
  [-168, 66, -156, 71, -128, 70, -110, 68, -95, 72, -82, 68, -80, 62, -94, 59, -82, 55, -79, 52, -77, 60, -65, 60, -56, 52, -66, 50,
    -64, 46, -70, 43, -76, 35, -81, 31, -80, 25, -84, 30, -97, 28, -97, 21, -90, 19, -87, 21, -88, 16, -83, 10, -77, 8, -85, 11, -105, 20,
    -113, 31, -122, 37, -124, 46, -133, 55, -150, 60, -162, 55, -158, 59, -165, 62],
  [-77, 8, -72, 12, -60, 8, -50, 1, -35, -6, -39, -15, -48, -26, -58, -36, -65, -43, -68, -54, -74, -50, -72, -36, -70, -18, -81, -5, -78, 2],
  [-10, 37, -9, 43, -1, 44, -4, 48, 3, 51, 8, 54, 9, 57, 11, 54, 20, 55, 24, 59, 30, 60, 22, 63, 25, 66, 17, 61, 16, 56, 11, 59, 5, 60, 14, 67, 26, 71, 41, 67,
    60, 69, 73, 72, 100, 77, 140, 73, 170, 70, 180, 67, 170, 60, 160, 57, 156, 51, 155, 60, 138, 54, 140, 47, 128, 39, 126, 34, 121, 39, 121, 30, 110, 21,
    108, 12, 103, 10, 104, 1, 98, 9, 94, 17, 87, 21, 80, 13, 77, 8, 72, 20, 66, 25, 57, 26, 48, 30, 56, 25, 59, 22, 52, 17, 44, 13, 35, 28, 34, 31, 36, 36, 27, 37,
    23, 37, 19, 42, 13, 45, 18, 40, 15, 38, 9, 44, 3, 42, -1, 37],
  [-6, 36, 10, 37, 20, 32, 32, 31, 37, 21, 43, 11, 51, 11, 40, -4, 40, -15, 33, -26, 27, -34, 18, -34, 12, -17, 9, 3, -8, 4, -17, 14, -16, 22],
  [114, -22, 122, -18, 131, -12, 136, -12, 141, -17, 142, -11, 146, -19, 153, -26, 150, -37, 140, -38, 131, -31, 116, -35],
  [-5, 50, 1, 51, 0, 54, -3, 58, -5, 57, -3, 54], [-10, 52, -6, 52, -6, 55, -9, 54], [130, 31, 140, 36, 142, 44, 139, 41, 132, 34],
  [-50, 61, -43, 60, -22, 70, -20, 80, -60, 82, -70, 77, -54, 70], [44, -25, 50, -16, 47, -25], [96, 5, 105, -6, 98, 1], [109, 1, 117, 7, 116, -4],
  [131, -1, 141, -3, 148, -9, 138, -8], [167, -46, 174, -41, 178, -38, 174, -36, 172, -43],
];
const kWide = 960, kHigh = 420;
const project = (longitude, latitude) => [(longitude + 170) / 360 * kWide + (longitude < -170 ? kWide : 0), (76 - latitude) / 132 * kHigh];

let mapTimeline = favourite, mapMicrobatch = 'all';

// From machine to machine, with how many microbatches go there.
function hops(timeline) {
  const found = new Map();
  timeline.paths.forEach((path, microbatch) => {
    if (mapMicrobatch !== 'all' && mapMicrobatch !== microbatch) return;
    for (let k = 0; k < path.length; ++k) {
      const from = path[k], to = path[(k + 1) % path.length];
      if (from === null || to === null) continue;
      const key = from + ' ' + to;
      found.set(key, {from, to, stage: k, count: (found.get(key)?.count || 0) + 1});
    }
  });
  return [...found.values()];
}

function svg(where, label, high, wide = kWide) {
  const made = svgElement('svg', {viewBox: '0 0 ' + wide + ' ' + high, role: 'img', 'aria-label': label});
  element(where).replaceChildren(made);
  return made;
}

function drawMap() {
  const place = new Map(data.places.map((each) => [each.name, each]));
  const known = data.machines.every((machine) => place.has(machine.site));
  element('map').hidden = !known;
  if (!known) return false;
  const picture = svg('map', 'Map of flows between sites', kHigh);
  for (const outline of kLand) {
    const points = [];
    for (let k = 0; k < outline.length; k += 2) points.push(project(outline[k], outline[k + 1]).map((each) => each.toFixed(1)).join(','));
    svgElement('polygon', {points: points.join(' '), fill: 'var(--land)'}, picture);
  }
  const at = (name) => project(place.get(name).longitude, place.get(name).latitude);
  const between = new Map();
  for (const hop of hops(mapTimeline)) {
    const from = data.machines[hop.from].site, to = data.machines[hop.to].site;
    if (from === to) continue;
    const key = from + '|' + to;
    between.set(key, {from, to, count: (between.get(key)?.count || 0) + hop.count});
  }
  const most = Math.max(1, ...[...between.values()].map((each) => each.count));
  for (const {from, to, count} of between.values()) {
    const [x1, y1] = at(from), [x2, y2] = at(to);
    const bend = 0.16, cx = (x1 + x2) / 2 + (y2 - y1) * bend, cy = (y1 + y2) / 2 - (x2 - x1) * bend;
    const line = svgElement('path', {d: `M${x1},${y1} Q${cx},${cy} ${x2},${y2}`, fill: 'none', stroke: 'var(--accent)', class: 'flow',
      'stroke-width': (1 + 4 * count / most).toFixed(2), 'stroke-opacity': 0.55, 'stroke-linecap': 'round'}, picture);
    svgElement('title', {}, line).textContent = from + ' to ' + to + ': ' + counted(count, 'microbatch', 'microbatches');
  }
  for (const name of new Set(data.machines.map((machine) => machine.site))) {
    const [x, y] = at(name), side = place.get(name).label;
    const here = data.machines.filter((machine) => machine.site === name);
    const dot = svgElement('circle', {cx: x, cy: y, r: 6, fill: 'var(--ink)', stroke: 'var(--card)', 'stroke-width': 2, class: 'site'}, picture);
    svgElement('title', {}, dot).textContent = name + ': ' + here.map((machine) => (machine.stage === 0 ? 'data node' : 'stage ' + machine.stage)).join(', ');
    const [dx, dy, anchor] = {w: [-10, 5, 'end'], e: [10, 5, 'start'], n: [0, -11, 'middle'], s: [0, 22, 'middle']}[side];
    svgElement('text', {x: x + dx, y: y + dy, 'text-anchor': anchor, 'paint-order': 'stroke', stroke: 'var(--card)', 'stroke-width': 3}, picture).textContent = name;
  }
  return true;
}

// Data nodes at both ends, stages between; a line is as wide as the microbatches on it.
function drawLayers() {
  const stages = Math.max(...data.machines.map((machine) => machine.stage));
  const layers = Array.from({length: stages + 2}, (_, k) => data.machines.map((machine, id) => ({machine, id})).filter(({machine}) => machine.stage === k % (stages + 1)));
  const widest = Math.max(...layers.map((layer) => layer.length));
  const high = Math.max(180, Math.min(900, 46 * widest + 60));
  // In its own size on narrow screens, so that numbers can be read.
  const wide = Math.max(300 + 20 * stages, Math.min(kWide, element('layers').clientWidth || kWide));
  const picture = svg('layers', 'Flows by stage', high, wide);
  const x = (layer) => 26 + layer * (wide - 52) / (stages + 1);
  const y = (layer, id) => 46 + (layers[layer].findIndex((each) => each.id === id) + 0.5) * (high - 60) / layers[layer].length;
  const list = hops(mapTimeline), most = Math.max(1, ...list.map((hop) => hop.count));
  for (const {from, to, stage, count} of list) {
    const x1 = x(stage), x2 = x(stage + 1), y1 = y(stage, from), y2 = y(stage + 1, to), middle = (x1 + x2) / 2;
    const line = svgElement('path', {d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`, fill: 'none', stroke: 'var(--accent)', class: 'hop',
      'stroke-width': (1 + 6 * count / most).toFixed(2), 'stroke-opacity': 0.55}, picture);
    svgElement('title', {}, line).textContent = machineName(from) + ' to ' + machineName(to) + ': ' + counted(count, 'microbatch', 'microbatches');
  }
  layers.forEach((layer, k) => {
    svgElement('text', {x: x(k), y: 20, 'text-anchor': 'middle', 'fill-opacity': 0.7}, picture).textContent = k % (stages + 1) === 0 ? 'data' : wide / stages < 110 ? k : 'stage ' + k;
    for (const {machine, id} of layer) {
      const dot = svgElement('circle', {cx: x(k), cy: y(k, id), r: 12, fill: 'var(--card)', stroke: 'var(--ink)', 'stroke-width': 1.5}, picture);
      svgElement('title', {}, dot).textContent = machineName(id) + ', ' + counted(machine.slots, 'slot') + ', forward ' + machine.compute_s.toFixed(2) + ' s';
      svgElement('text', {x: x(k), y: y(k, id) + 4, 'text-anchor': 'middle', style: 'font-size: 11px'}, picture).textContent = id;
    }
  });
}

function drawFlows() {
  const mapped = drawMap();
  drawLayers();
  const many = counted(mapTimeline.paths.length, 'microbatch', 'microbatches');
  element('map-what').textContent = 'The paths of ' + (mapMicrobatch === 'all' ? 'all ' + many : 'microbatch ' + mapMicrobatch) +
    ' in the iteration above, forward passes, as they were really taken. ' +
    (mapped ? 'Above between the sites (lines bend to the left of their direction), below' : 'Drawn') +
    ' from stage to stage; circles are machines with their numbers, wider lines carry more microbatches.';
}

function chooseTimeline(timeline) {
  mapTimeline = timeline;
  mapMicrobatch = 'all';
  buttons('map-microbatch', ['all', ...timeline.paths.keys()].slice(0, 41), (each) => (each === 'all' ? 'all microbatches' : String(each)), 'all',
    (each) => { mapMicrobatch = each; drawFlows(); });
  drawFlows();
}

let resized = 0;
addEventListener('resize', () => {
  clearTimeout(resized);
  if (favourite) resized = setTimeout(drawFlows, 150);
});
if (favourite) {
  buttons('map-router', drawable, (timeline) => timeline.policy, favourite, chooseTimeline);
  chooseTimeline(favourite);
} else {
  element('map-section').hidden = true;
}
