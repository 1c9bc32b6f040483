/* Loaded into the reference page by its test: what a reader would see of it, in numbers. */
globalThis.probe = (() => {
  const SKIPPED = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'])
  const MARGIN_PX = 5
  const violations = []
  document.addEventListener('securitypolicyviolation', (event) => {
    violations.push(`${event.effectiveDirective} ${event.blockedURI}`)
  })

  /** Red, green, blue of 0 to 255, and alpha. */
  const parse = (color) => {
    const [red = 0, green = 0, blue = 0, alpha = 1] = (/\(([^)]+)\)/.exec(color)?.[1] ?? '0 0 0 0')
      .split(/[ ,/]+/)
      .map(Number)
    return [red, green, blue, alpha]
  }
  const blend = (above, below) => [0, 1, 2].map((i) => above[i] * above[3] + below[i] * (1 - above[3]))
  /** Relative luminance, as WCAG 2.2 defines it. */
  const luminance = (color) => {
    const [red, green, blue] = color.map((value) => {
      const share = value / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }

  const isVisible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true })

  function contrastOf(element, color) {
    const ancestors = []
    for (let each = element; each; each = each.parentElement) ancestors.unshift(each)
    let background = [255, 255, 255]
    let opacity = 1
    for (const each of ancestors) {
      const style = getComputedStyle(each)
      background = blend(parse(style.backgroundColor), background)
      opacity *= Number(style.opacity)
    }
    const [red, green, blue, alpha] = parse(color)
    const ink = luminance(blend([red, green, blue, alpha * opacity], background))
    const paper = luminance(background)
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)
  }

  /** Every text that has a place on the page, that of `::after` too, with its contrast to what is behind it. */
  function listTexts() {
    const texts = []
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)
    while (walker.nextNode()) {
      const node = walker.currentNode
      const isElement = node.nodeType === Node.ELEMENT_NODE
      const element = isElement ? node : node.parentElement
      const style = getComputedStyle(element, isElement ? '::after' : null)
      const text = isElement ? (/^"(.+)"$/.exec(style.content)?.[1] ?? '') : node.data.trim()
      if (text === '' || SKIPPED.has(element.tagName) || !isVisible(element)) continue
      const range = document.createRange()
      range.selectNodeContents(node)
      const { width, height } = range.getBoundingClientRect()
      if (width * height === 0) continue
      texts.push({ text: text.slice(0, 60), contrast: contrastOf(element, style.color) })
    }
    return texts
  }

  /** What reaches over the right edge, unless it stands in something that scrolls by itself. */
  function listOverflows() {
    const scrolls = (element) =>
      element !== document.body &&
      element !== document.documentElement &&
      (/auto|scroll|hidden/.test(getComputedStyle(element).overflowX) ||
        (element.parentElement !== null && scrolls(element.parentElement)))
    return [...document.querySelectorAll('body *')]
      .filter((element) => isVisible(element) && element.getBoundingClientRect().right > innerWidth + 1)
      .filter((element) => !scrolls(element))
      .map((element) => `${element.tagName} ${element.className}`)
  }

  /** Of each operation: the right edge of the navigation, both edges of its text, the left edge of its examples. */
  function listPanes() {
    const navigation = document.querySelector('nav').getBoundingClientRect()
    return [...document.querySelectorAll('.operation')].map((section) => {
      const [text, code] = ['.text', '.code'].map((pane) => section.querySelector(pane).getBoundingClientRect())
      return [navigation.right, text.left, text.right, code.left]
    })
  }

  /** Of a picture: how bright (0 to 1) the colour of its left margin is, and which share of it has another. */
  async function describePicture(base64) {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
    const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }))
    const { width, height } = bitmap
    const context = new OffscreenCanvas(width, height).getContext('2d')
    context.drawImage(bitmap, 0, 0)
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)
    const counts = new Map()
    for (let i = MARGIN_PX; i < pixels.length; i += width) counts.set(pixels[i], (counts.get(pixels[i]) ?? 0) + 1)
    const [margin] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most))
    return {
      brightness: luminance([margin & 255, (margin >> 8) & 255, (margin >> 16) & 255]),
      inkShare: pixels.reduce((sum, pixel) => sum + (pixel === margin ? 0 : 1), 0) / pixels.length,
    }
  }

  return { violations, listTexts, listOverflows, listPanes, describePicture }
})()
