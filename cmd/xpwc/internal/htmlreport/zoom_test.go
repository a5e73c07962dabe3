package htmlreport

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// visible is how many boxes of the treemap one can see.
const visible = `[...document.querySelectorAll("#map .box")].filter(b => b.checkVisibility() && b.clientWidth).length`

// crumbs is where the treemap is zoomed to.
const crumbs = `[...document.querySelectorAll("#crumbs button")].map(b => b.textContent).join(" > ")`

// keepPictures names the variable that has the pictures kept in a directory, for people to look at.
const keepPictures = "XPWC_TEST_PICTURES"

// opened shows a page about weights in a browser.
func opened(t *testing.T, b *browser, file []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, []byte(rendered(t, file, sampleOptions)), 0o600))
	b.open(path)
}

func TestABrowserZoomsAsksForNothingAndComplainsOfNothing(t *testing.T) {
	b := startBrowser(t)
	b.show(1200, 900, "light")
	opened(t, b, sample(t, models()...))

	// The whole fits the treemap, and boxes are where they belong.
	require.Equal(t, "all", eval[string](b, crumbs))
	whole := eval[int](b, visible)
	require.Equal(t, 11, whole, "the payload of one entry is in the box of another")
	require.True(t, eval[bool](b, `[...document.querySelectorAll("#map .box .box")].every(b => {
		const inner = b.getBoundingClientRect(), outer = b.parentElement.closest(".box").getBoundingClientRect();
		return inner.left >= outer.left - 1 && inner.right <= outer.right + 1 &&
			inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1; })`))

	// A click on a box leads one layer in, one on a label to its layer.
	const click = `document.querySelector("#map [title*='mlp.up']").click()`
	eval[any](b, click)
	require.Equal(t, "all > amd64 avx2 (a1000000)", eval[string](b, crumbs))
	require.Less(t, eval[int](b, visible), whole)
	eval[any](b, click)
	require.Equal(t, "all > amd64 avx2 (a1000000) > model.layers", eval[string](b, crumbs))
	require.Equal(t, "amd64 avx2 (a1000000): model.layers — 23.4 KiB, 77.4 %, 3 entries",
		eval[string](b, `document.getElementById("status").textContent`))
	require.True(t, eval[bool](b, `(() => {
		const box = document.querySelector("#map .here"), map = document.getElementById("map");
		return Math.abs(box.clientWidth - map.clientWidth) + Math.abs(box.clientHeight - map.clientHeight) < 2; })()`),
		"it fills the treemap")
	eval[any](b, `document.querySelector("#crumbs button").click()`)
	require.Equal(t, whole, eval[int](b, visible))

	// So do the keys.
	eval[any](b, `document.querySelector("#map a.label[tabindex='0']").focus()`)
	b.press("Enter")
	require.Equal(t, "all > amd64 avx2 (a1000000)", eval[string](b, crumbs))
	require.Equal(t, "amd64 avx2 (a1000000)", eval[string](b, `document.activeElement.textContent`))
	b.press("Escape")
	require.Equal(t, "all", eval[string](b, crumbs))

	require.Len(t, b.Requests, 1, "the page itself")
	require.Empty(t, b.Complaints)
}

func TestHostileNamesDoNothingInABrowser(t *testing.T) {
	b := startBrowser(t)
	var weights []weight
	for i, name := range hostile {
		weights = append(weights, weight{kernel: name, size: 1000 + i, layout: avx2},
			weight{kernel: name + "/inner." + name, size: 500, layout: avx512})
	}
	opened(t, b, sample(t, weights))
	boxes := eval[int](b, `document.querySelectorAll("#map a.label").length`)
	require.Greater(t, boxes, 2)
	eval[any](b, `for (const box of document.querySelectorAll("#map a.label, #map .box")) box.click()`)
	require.Equal(t, 1, eval[int](b, `document.scripts.length`))
	require.Zero(t, eval[int](b, `document.images.length`))
	require.Len(t, b.Requests, 1)
	require.Empty(t, b.Complaints)
}

func TestAPageOfManyEntriesFitsEachScreenLightAndDark(t *testing.T) {
	b := startBrowser(t)
	weights := manyWeights(20_000, kernelName)
	for i := range weights {
		weights[i].size *= 1 + i%37
	}
	file := sample(t, weights)
	pictures := map[string][]byte{}
	for name, s := range map[string]struct {
		width  int
		scheme string
	}{"light": {1200, "light"}, "dark": {1200, "dark"}, "phone-light": {390, "light"}, "phone-dark": {390, "dark"}} {
		b.show(s.width, 1000, s.scheme)
		opened(t, b, file)
		wide := eval[int](b, `document.documentElement.scrollWidth`)
		require.LessOrEqual(t, wide, s.width, "nothing is beside the page")
		require.Greater(t, eval[int](b, visible), 100)
		pictures[name] = b.picture()
		if dir := os.Getenv(keepPictures); dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), pictures[name], 0o600))
		}
	}
	for name, dark := range map[string]bool{"light": false, "dark": true, "phone-light": false, "phone-dark": true} {
		picture, err := png.Decode(bytes.NewReader(pictures[name]))
		require.NoError(t, err)
		r, g, bl, _ := picture.At(3, 3).RGBA()
		require.Equal(t, dark, r+g+bl < 3*0x8000, name)
	}
	require.Empty(t, b.Complaints)
}

func TestOnANarrowScreenNothingScrollsSideways(t *testing.T) {
	b := startBrowser(t)
	for _, commits := range [][][]weight{models(), {manyWeights(2000, kernelName)}} {
		b.show(400, 1000, "light")
		opened(t, b, sample(t, commits...))
		wide := eval[[]string](b, `[document.documentElement, ...document.querySelectorAll(".scroll")]
			.filter(e => e.scrollWidth > e.clientWidth)
			.map(e => (e.closest("section") ?? e).id + " " + e.scrollWidth + " " + e.innerText.slice(0, 60))`)
		require.Empty(t, wide)
		if dir := os.Getenv(keepPictures); dir != "" {
			picture := filepath.Join(dir, fmt.Sprintf("narrow-%d.png", len(commits)))
			require.NoError(t, os.WriteFile(picture, b.picture(), 0o600))
		}
	}
}

// Without its script the page shows all its content, without controls that would do nothing.
func TestThePageIsWholeWithoutItsScript(t *testing.T) {
	b := startBrowser(t)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.show(1200, 900, "light")
	opened(t, b, sample(t, models()...))
	require.Equal(t, 11, eval[int](b, visible))
	require.False(t, eval[bool](b, `document.getElementById("crumbs").checkVisibility()`))
	require.NotContains(t, eval[string](b, `document.body.innerText`), "zoom")
	var printed struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"printBackground": true}, &printed)
	require.NotEmpty(t, printed.Data)
	require.Empty(t, b.Complaints)
}
