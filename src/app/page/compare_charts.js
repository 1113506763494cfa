// Charts of iteration time, time per accepted microbatch and parts of an iteration; the texts above; the table.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const routers = [...new Set(data.rows.map((row) => row.policy))];
const churns = [...new Set(data.rows.map((row) => row.churn))];
const rowOf = (policy, churn) => data.rows.find((row) => row.policy === policy && row.churn === churn);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const element = (id) => document.getElementById(id);
const percent = (share) => (100 * share).toFixed(0) + ' %';

function buttons(where, values, label, chosen, choose) {
  const box = element(where);
  box.replaceChildren(...values.map((value) => {
    const button = document.createElement('button');
    button.textContent = label(value);
    button.setAttribute('aria-pressed', value === chosen);
    button.addEventListener('click', () => {
      for (const other of box.children) other.setAttribute('aria-pressed', other === button);
      choose(value);
    });
    return button;
  }));
  box.hidden = values.length < 2;
}

const counted = (number, one, many = one + 's') => number.toLocaleString('en') + ' ' + (number === 1 ? one : many);

function describe() {
  const names = data.scenarios.map((scenario) => scenario.name);
  const first = data.scenarios[0];
  const same = data.scenarios.every((scenario) => scenario.machines === first.machines);
  element('what').textContent = counted(routers.length, 'router') + ' in ' +
    (names.length === 1 ? 'the scenario ' + names[0] : names.length + ' scenarios (' + names.slice(0, 8).join(', ') +
      (names.length > 8 ? ', …' : '') + ')') + (same ? ', ' + counted(first.machines, 'machine') + ', ' +
      counted(first.stages, 'stage') + ', ' + counted(first.microbatches, 'microbatch', 'microbatches') + ' an iteration' : '') +
    '; ' + counted(data.seeds, 'seed') + ' each, ' + counted(data.iterations, 'iteration') + ' a run. Simulated time.';
  element('version').textContent = data.version;
  element('command').textContent = data.command;
  element('finding').textContent = finding();
  element('finding').hidden = element('finding').textContent === '';
  const bounds = data.rows.filter((row) => row.lower_bound_s);
  element('bound-note').textContent = bounds.length === data.rows.length && new Set(bounds.map((row) => row.lower_bound_s)).size === 1 ?
    'No plan for this placement of machines can be below ' + bounds[0].lower_bound_s.toFixed(1) + ' s without crashes (dashed).' : '';
}

// What the figures say first: ours against the best of the others, at the highest churn.
function finding() {
  const churn = Math.max(...churns);
  const mine = (policy) => policy === 'ours' || policy.startsWith('protocol') || policy.startsWith('without/');
  const rows = data.rows.filter((row) => row.churn === churn && row.per_accepted_s !== null && row.runs > 0);
  const own = rows.find((row) => row.policy.startsWith('protocol')) || rows.find((row) => row.policy === 'ours');
  const others = rows.filter((row) => !mine(row.policy));
  if (!own || others.length === 0) return '';
  const best = others.reduce((a, b) => (a.per_accepted_s < b.per_accepted_s ? a : b));
  const saved = 1 - own.per_accepted_s / best.per_accepted_s;
  const spread = Math.hypot(own.per_accepted_error_s || 0, best.per_accepted_error_s || 0);
  const caution = own.runs < 2 ? ' From one run each: a hint, no finding.' :
    Math.abs(own.per_accepted_s - best.per_accepted_s) < 2 * spread ? ' The difference is within twice its standard error.' : '';
  return 'With churn ' + churn + ', ' + own.policy + ' takes ' + own.per_accepted_s.toFixed(1) + ' s for each accepted microbatch; ' +
    best.policy + ', the best of the published methods, ' + best.per_accepted_s.toFixed(1) + ' s: ' + percent(Math.abs(saved)) +
    (saved >= 0 ? ' less time.' : ' more time.') + caution;
}

const whiskers = {
  id: 'whiskers',
  afterDatasetsDraw(chart) {
    const context = chart.ctx;
    context.save();
    context.strokeStyle = colour('whisker');
    context.lineWidth = 1.5;
    chart.data.datasets.forEach((set, index) => {
      if (!set.errors || !chart.isDatasetVisible(index)) return;
      chart.getDatasetMeta(index).data.forEach((bar, k) => {
        const value = set.data[k], error = set.errors[k];
        if (value === null || !(error > 0)) return;
        const low = chart.scales.y.getPixelForValue(Math.max(0, value - error)), high = chart.scales.y.getPixelForValue(value + error);
        const half = Math.min(5, bar.width / 3);
        context.beginPath();
        context.moveTo(bar.x, low); context.lineTo(bar.x, high);
        context.moveTo(bar.x - half, low); context.lineTo(bar.x + half, low);
        context.moveTo(bar.x - half, high); context.lineTo(bar.x + half, high);
        context.stroke();
      });
    });
    const bound = chart.options.lowerBound;
    if (bound) {
      const y = chart.scales.y.getPixelForValue(bound);
      context.setLineDash([5, 4]);
      context.strokeStyle = colour('soft');
      context.beginPath();
      context.moveTo(chart.chartArea.left, y); context.lineTo(chart.chartArea.right, y);
      context.stroke();
    }
    context.restore();
  },
};

const charts = {};
function draw(id, config) {
  if (charts[id]) charts[id].destroy();
  charts[id] = new Chart(element(id), config);
}

function axis(title) {
  return {
    title: {display: title !== '', text: title, color: colour('soft')},
    grid: {color: colour('line'), drawBorder: false}, ticks: {color: colour('soft'), maxRotation: 50}, beginAtZero: true,
  };
}

function byChurn(id, title, value, error, lowerBound) {
  const top = Math.max(0, ...data.rows.filter((row) => row.runs && value(row) !== null).map((row) => value(row) + (error(row) || 0)));
  const shade = (k) => colour('churn-' + (churns.length === 1 ? 2 : Math.min(3, k)));
  draw(id, {
    type: 'bar',
    data: {
      labels: routers,
      datasets: churns.map((churn, k) => ({
        label: 'churn ' + churn, backgroundColor: shade(k), borderRadius: 3, maxBarThickness: 46,
        data: routers.map((policy) => rowOf(policy, churn)?.runs ? value(rowOf(policy, churn)) : null),
        errors: routers.map((policy) => rowOf(policy, churn)?.runs ? error(rowOf(policy, churn)) : 0),
      })),
    },
    options: {
      responsive: true, maintainAspectRatio: false, animation: false, lowerBound,
      scales: {x: {...axis(''), grid: {display: false}}, y: {...axis(title), suggestedMax: 1.02 * top}},
      plugins: {
        legend: {display: churns.length > 1, labels: {color: colour('ink'), boxWidth: 12}},
        tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + item.parsed.y.toFixed(2) + ' ± ' +
          (item.dataset.errors[item.dataIndex] || 0).toFixed(2) + ' s'}},
      },
    },
    plugins: [whiskers],
  });
}

const kParts = [['waiting', 'wait_s', 'waiting'], ['wires', 'transfer_s', 'wires'], ['computing', 'compute_s', 'computing'],
  ['last one', 'last_s', 'last'], ['the end', 'end_s', 'end']];
let sharesOf = churns[churns.length - 1];
function drawShares() {
  draw('share-chart', {
    type: 'bar',
    data: {
      labels: routers,
      datasets: kParts.map(([label, key, name]) => ({
        label, backgroundColor: colour(name), borderColor: colour('card'), borderWidth: {right: 2}, maxBarThickness: 30,
        data: routers.map((policy) => rowOf(policy, sharesOf)?.runs ? Math.max(0, rowOf(policy, sharesOf)[key]) : null),
      })),
    },
    options: {
      responsive: true, maintainAspectRatio: false, animation: false, indexAxis: 'y',
      scales: {x: {...axis('seconds'), stacked: true}, y: {...axis(''), grid: {display: false}, stacked: true}},
      plugins: {
        legend: {labels: {color: colour('ink'), boxWidth: 12}},
        tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + item.parsed.x.toFixed(1) + ' s'}},
      },
    },
  });
}

const number = (value, digits) => (value === null || value === undefined ? '–' : value.toFixed(digits));

function line(tag, texts) {
  const tr = document.createElement('tr');
  for (const text of texts) tr.appendChild(document.createElement(tag)).textContent = text;
  return tr;
}

function fillIdeas() {
  element('ideas-section').hidden = data.ideas.length === 0;
  const signed = (share) => (share === null ? '–' : (share < 0 ? '−' : '+') + Math.abs(100 * share).toFixed(1));
  const change = (of) => signed(of.mean) + ' % [' + signed(of.low) + ', ' + signed(of.high) + ']';
  element('ideas').replaceChildren(line('th', ['churn', 'without', 'iteration time', 'time per accepted', 'pairs', 'instead']),
    ...data.ideas.map((row) => line('td', [row.churn, row.idea, change(row.iteration_change), change(row.per_accepted_change),
      row.pairs, row.without])));
}

function fillTable() {
  const columns = [
    ['churn', (row) => row.churn], ['router', (row) => row.policy],
    ['iteration, s', (row) => number(row.iteration_s, 1) + ' ± ' + number(row.iteration_error_s, 1)],
    ['accepted / 10 s', (row) => number(row.accepted_per_10_s, 2) + ' ± ' + number(row.accepted_error, 2)],
    ['parts / 10 s', (row) => number(row.parts_per_10_s, 2)],
    ['× lower bound', (row) => (row.lower_bound_s ? number(row.iteration_s / row.lower_bound_s, 2) : '–')],
    ...kParts.map(([label, key]) => [label, (row) => number(row[key], 1)]),
    ['done again', (row) => (100 * row.redone_share).toFixed(1) + ' %'], ['messages', (row) => number(row.messages, 0)],
    ['control, kB', (row) => (row.control_bytes === null ? '–' : number(row.control_bytes / 1000, 0))],
    ['deaths', (row) => number(row.crashes, 0)], ['runs', (row) => row.runs],
  ];
  element('table').replaceChildren(line('th', columns.map(([name]) => name)), ...data.rows.map((row) => (row.runs ?
    line('td', columns.map(([, value]) => value(row))) : line('td', [row.churn, row.policy, 'no run got to its end']))));
}

function drawCharts() {
  const bounds = new Set(data.rows.map((row) => row.lower_bound_s));
  byChurn('iteration-chart', 'seconds an iteration', (row) => row.iteration_s, (row) => row.iteration_error_s,
    bounds.size === 1 ? [...bounds][0] : null);
  byChurn('accepted-chart', 'seconds per accepted microbatch', (row) => row.per_accepted_s, (row) => row.per_accepted_error_s, null);
  drawShares();
}

describe();
fillIdeas();
fillTable();
buttons('share-churn', churns, (churn) => 'churn ' + churn, sharesOf, (churn) => { sharesOf = churn; drawShares(); });
drawCharts();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
