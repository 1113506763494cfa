// One iteration as lanes: a row a machine, with a thick lane for computing and a thin one for its uplink.
'use strict';

const kBars = {
  F: ['forward', 'forward'], H: ['head', 'head'], B: ['backward', 'backward'], R: ['done again', 'again'],
  A: ['activation sent', 'activation'], G: ['gradient sent', 'gradient'], S: ['aggregation', 'sum'], T: ['state sent', 'state'],
};
const svgElement = (tag, attributes, parent) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent ? parent.appendChild(made) : made;
};
const machineName = (k) => {
  const machine = data.machines[k];
  return (machine.stage === 0 ? 'data' : 'stage ' + machine.stage) + ' · ' + k + (machine.site ? ' ' + machine.site : '');
};

function barText([kind, node, microbatch, to, begin, end]) {
  const what = kBars[kind][0] + (microbatch === null ? '' : ' of microbatch ' + microbatch) + (to === null ? '' : ' to machine ' + to);
  return machineName(node) + ': ' + what + ', ' + begin.toFixed(2) + ' to ' + end.toFixed(2) + ' s (' + (end - begin).toFixed(2) + ' s)';
}

function ticks(duration) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000].find((each) => duration / each <= 8) || duration / 4;
  const list = [];
  for (let at = 0; at < duration - step / 3; at += step) list.push(at);
  return [...list, duration];
}

function drawTimeline(timeline) {
  const sheet = document.createElement('div');
  sheet.className = 'sheet';
  const share = (seconds) => (100 * seconds / timeline.duration_s).toFixed(3) + '%';
  const lanes = data.machines.map((machine, k) => {
    const name = document.createElement('div'), lane = document.createElement('div');
    name.className = 'name';
    lane.className = 'lane';
    if (k > 0 && machine.stage !== data.machines[k - 1].stage) for (const each of [name, lane]) each.classList.add('new-stage');
    name.textContent = machineName(k);
    lane.dataset.node = k;
    sheet.append(name, lane);
    return svgElement('svg', {'aria-label': machineName(k)}, lane);
  });
  for (const bar of timeline.bars) {
    const [kind, node, , , begin, end] = bar, uplink = 'AGST'.includes(kind);
    const rect = svgElement('rect', {
      x: share(begin), width: share(Math.max(end - begin, timeline.duration_s / 2000)), y: uplink ? 14 : 2, height: uplink ? 5 : 11,
      fill: 'var(--' + kBars[kind][1] + ')', stroke: 'var(--card)', 'stroke-width': uplink ? 0 : 0.6, class: 'bar',
    }, lanes[node]);
    const tell = () => { element('timeline-readout').textContent = barText(bar); };
    rect.addEventListener('pointerenter', tell);
    rect.addEventListener('click', tell);
  }
  for (const [at, node] of timeline.crashes) {
    const mark = svgElement('text', {x: share(at), y: 13, 'text-anchor': 'middle', 'font-size': 15, 'font-weight': 700,
      fill: 'var(--again)', class: 'crash'}, lanes[node]);
    mark.textContent = '✕';
    mark.addEventListener('pointerenter', () => {
      element('timeline-readout').textContent = machineName(node) + ' dies at ' + at.toFixed(2) + ' s';
    });
  }
  const corner = document.createElement('div'), axisRow = document.createElement('div');
  corner.className = 'name new-stage';
  axisRow.className = 'axis';
  for (const at of ticks(timeline.duration_s)) {
    const tick = document.createElement('span');
    tick.style.left = share(at);
    tick.textContent = at === timeline.duration_s ? at.toFixed(1) + ' s' : at;
    axisRow.append(tick);
  }
  sheet.append(corner, axisRow);
  element('timeline').replaceChildren(sheet);
  const used = new Set(timeline.bars.map((bar) => bar[0]));
  element('timeline-legend').replaceChildren(...Object.entries(kBars).filter(([kind]) => used.has(kind)).map(([, [label, name]]) => {
    const item = document.createElement('li'), swatch = document.createElement('i');
    swatch.style.background = 'var(--' + name + ')';
    item.append(swatch, label);
    return item;
  }));
  const deaths = timeline.crashes.length;
  element('timeline-what').textContent = 'Iteration ' + timeline.iteration + ' of ' + timeline.policy + ' in ' + data.scenarios[0].name +
    ', seed ' + timeline.seed + ', churn ' + timeline.churn + ': ' + timeline.duration_s.toFixed(1) + ' s' +
    (deaths ? ', ' + counted(deaths, 'death') : '') + '. Gaps in the thick lanes are machines that wait.';
}

const drawable = data.timelines.filter((timeline) => timeline.bars.length > 0);
const favourite = drawable.find((timeline) => timeline.policy.startsWith('protocol')) || drawable[drawable.length - 1];
if (favourite) {
  buttons('timeline-router', drawable, (timeline) => timeline.policy, favourite, drawTimeline);
  drawTimeline(favourite);
} else {
  element('timeline-section').hidden = true;
}
