// What test_browser.py looks for in every page. Each function returns what is wrong, if anything.

// How much the page has moved since it loaded.
window.shift = 0;
new PerformanceObserver((list) =>
    list.getEntries().forEach((entry) => { window.shift += entry.value; })
).observe({type: 'layout-shift', buffered: true});

// Bytes of the page, its style and its scripts.
window.findSize = () => performance.getEntries()
    .filter((one) => one.entryType === 'navigation' || one.name.includes('/static/'))
    .reduce((sum, one) => sum + one.decodedBodySize, 0);

// The number of focusable elements, and those whose focus is invisible. In one step, because a key
// press takes 20 ms.
window.findRingless = () => {
    const ringless = [], visited = [];
    for (const place of document.querySelectorAll('a, button, input, select, textarea, summary')) {
        place.focus();
        if (document.activeElement !== place) continue;
        visited.push(place);
        const style = getComputedStyle(place);
        const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
            && !/rgba\(.*, 0\)|transparent/.test(style.outlineColor);
        if (!seen) ringless.push(place.outerHTML.slice(0, 120));
    }
    return [visited.length, ringless];
};

// What makes the page scroll sideways.
window.findWide = () => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    const wide = [...document.querySelectorAll('main *, header *, footer *')]
        .filter((one) => one.getBoundingClientRect().right > room + 1 && !one.closest('.scroll'))
        .slice(0, 4).map((one) => one.outerHTML.slice(0, 140));
    return wide.length ? wide : ['something else'];
};

// Names and remarks with a word that is broken into several boxes.
window.findBroken = () => [...document.querySelectorAll('bdi, .board small')].filter((one) => {
    const text = one.firstChild;
    if (!text || text.nodeType !== 3 || !one.checkVisibility()) return false;
    return [...text.data.matchAll(/\S+/g)].some(({0: word, index}) => {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
    });
}).map((one) => one.outerHTML);

// Avatars that are not square.
window.findOblong = () => [...document.querySelectorAll('.avatar')].filter((one) => {
    const box = one.getBoundingClientRect();
    return Math.abs(box.width - box.height) >= 1;
}).map((one) => one.outerHTML);

// axe's serious findings for these rules, or for all.
window.findSerious = async (rules) => {
    const asked = {resultTypes: ['violations'], ...(rules.length ? {runOnly: rules} : {})};
    return (await axe.run(asked)).violations
        .filter((one) => ['serious', 'critical'].includes(one.impact))
        .map((one) => [one.id, one.nodes[0].html.slice(0, 160), one.nodes[0].failureSummary]);
};

// A heading with three mistakes that axe must find.
window.spoil = () => {
    document.querySelector('h1').innerHTML = '<img src="data:,"><input><span>words</span>';
    // The page's policy allows no style attribute.
    const words = document.querySelector('h1 span').style;
    words.color = '#777';
    words.background = '#888';
};

// The width of the search box's placeholder in its font, and the room for it, in px.
window.measureSearch = () => {
    const box = document.querySelector('.find input'), style = getComputedStyle(box);
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = style.font;
    return [pen.measureText(box.placeholder).width,
        box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)];
};

// The vertical space in px between buttons and links below each other.
window.findGaps = () => {
    const boxes = [...document.querySelectorAll('main :is(button, a, .button)')]
        .filter((one) => one.checkVisibility({visibilityProperty: true}))
        .map((one) => one.getBoundingClientRect())
        .sort((one, other) => one.top - other.top || one.bottom - other.bottom);
    return boxes.slice(1).map((box, place) => box.top - boxes[place].bottom)
        .filter((gap) => gap >= 0);
};
