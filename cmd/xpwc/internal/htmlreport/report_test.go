package htmlreport

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
)

func TestThePageSaysWhatTheFileRecords(t *testing.T) {
	file := sample(t, models()...)
	o := sampleOptions
	o.Current = avx512.Fingerprint
	page := parsed(t, rendered(t, file, o))
	f := func(id string) [][]string { return page.id(id).rows() }

	bytes := f("bytes")
	require.Equal(t, []string{"payloads", "30.3 KiB"}, bytes[1][:2])
	require.Equal(t, "file", bytes[len(bytes)-1][0])

	layouts := f("layouts")
	require.Equal(t, []string{avx2.Description, avx2.Fingerprint.String(), "4", "27.3 KiB"}, layouts[1][:4])
	require.Contains(t, layouts[2][0], "amd64 avx512vnni, XNNPACK e595e247 this machine’s")

	shared := page.id("shared")
	require.Contains(t, shared.text, "1 payload of several entries each, which spares 2.0 KiB.")
	sources := shared.rows()[1:]
	require.Equal(t, [][]string{
		{"01000000000000000000000000000000", "4", "27.3 KiB", "0 B"},
		{"02000000000000000000000000000000", "1", "2.0 KiB", "2.0 KiB"},
		{"03000000000000000000000000000000", "1", "2.0 KiB", "2.0 KiB"},
		{"not recorded", "1", "1000 B", "0 B"},
	}, sources)

	for i, want := range [][]string{
		{"2 in force", "7", "30.3 KiB", "2023-11-14 22:15:00"}, {"1", "4", "27.3 KiB", "2023-11-14 22:13:20"},
	} {
		row := f("commits")[i+1]
		require.Equal(t, want, slices.Concat(row[:3], row[4:]), "but for the size of the index")
	}
	require.Contains(t, page.id("dead").text, "are used by no entry of the generation in force")
	require.Contains(t, page.text, "Made by xpwc 1, 2027-01-15 08:00 UTC")
}

func TestLayersAreWhatNamesHaveInCommon(t *testing.T) {
	page := parsed(t, rendered(t, sample(t, models()...), sampleOptions))
	tree := page.id("weights").search(func(e *element) bool { return e.attr["class"] == "name" })
	var names []string
	for _, e := range tree {
		names = append(names, e.text)
	}
	require.Equal(t, []string{"amd64 avx2 (a1000000)", "model.layers", "0.mlp", "up", "down", "1.mlp.up", "head/Conv2D",
		"amd64 avx512vnni (b2000000)", "other/Conv2D", "unknown", "third/Conv2D"}, names)
	boxes := page.boxes()
	require.Len(t, boxes, len(names)+1, "and the whole")
	require.Equal(t, "amd64 avx2 (a1000000): model.layers.0.mlp — 15.6 KiB, 51.6 %, 2 entries", boxes[3].attr["title"])
	for _, b := range boxes {
		for _, link := range b.search(named("a")) {
			target := page.id(strings.TrimPrefix(link.attr["href"], "#"))
			require.True(t, target.name == "li" || link.attr["href"] == "#layer-0", "%v", link.attr)
		}
	}
}

func TestDamageIsShownWithTheRest(t *testing.T) {
	file := sample(t, manyWeights(100, kernelName))
	damaged := false
	for offset := len(file) - 4096; !damaged; offset++ { // somewhere in the strings, which are the end of the index
		bad := append([]byte(nil), file...)
		bad[offset] ^= 1
		page := parsed(t, rendered(t, bad, sampleOptions))
		notes := page.search(func(e *element) bool { return e.attr["class"] == "note" })
		if damaged = len(notes) > 0; damaged {
			require.Contains(t, notes[0].text, "Damaged: ")
			require.NotEmpty(t, page.boxes())
		}
	}
}

func TestOfExecuTorchsFilesThePageShowsNamesAndSizes(t *testing.T) {
	var file []byte
	var trailer []format.TrailerEntry
	for i, name := range []string{"layers.0.weight", "layers.1.weight"} {
		trailer = append(trailer,
			format.TrailerEntry{Name: name, Offset: uint64(len(file)), Size: 1000, Seed: uint32(i)})
		file = append(file, make([]byte, 4096)...)
	}
	file = append(file, format.EncodeTrailer(trailer, uint64(len(file)))...)
	page := parsed(t, rendered(t, file, sampleOptions))
	require.Contains(t, page.text, "ExecuTorch's packed weights cache, version 2")
	require.Len(t, page.boxes(), 1+1+2)
	for _, id := range []string{"layouts", "shared", "dead", "commits"} {
		require.Empty(t, page.id(id).name, id)
	}
}

func TestAnEmptyFileHasAPage(t *testing.T) {
	page := parsed(t, rendered(t, nil, sampleOptions))
	require.Empty(t, page.id("map").name)
}

// hostile are names that a file may have.
var hostile = []string{
	`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
	`{{.Path}}`, `<!--`, `]]>`, `&lt;b&gt;`, "`${alert(1)}`", `</style><style>*{display:none}`, "#map",
	"\x1b[31mred\x00\r\n\t", "\u202egnp.exe\u202c", "\u2066isolated", "\ufefffirst", "\xff\xfe",
	"java\u2028script:alert(1)", "javascript:alert(1)", "url(https://example.com/x)", "الطبقة.0",
	"////....////", ".", "", "a/../../b",
	strings.Repeat("deep/", 5000), strings.Repeat("é", 3000), strings.Repeat(`&"'<>`, 400),
}

// asks are what would make a browser ask for something.
var asks = regexp.MustCompile(`(?i)^(src|srcset|href|action|data|poster|background|on.*)$`)

func requireHarmless(t *testing.T, page string) {
	t.Helper()
	root := parsed(t, page)
	require.Len(t, root.search(named("script")), 1)
	require.Len(t, root.search(named("style")), 1)
	for _, e := range root.search(func(*element) bool { return true }) {
		require.NotContains(t, []string{"img", "iframe", "object", "embed", "form", "base", "audio", "video"}, e.name)
		for name, value := range e.attr {
			switch {
			case !asks.MatchString(name):
			case e.name == "link":
				require.Equal(t, "data:,", value)
			default:
				require.Equal(t, "href", name)
				require.Regexp(t, `^#[a-z]+(-[0-9]+)?$`, value)
			}
			if name == "style" {
				require.Regexp(t, `^((--[xywh]|width):[0-9.]+%;?)+$`, value)
			}
		}
	}
	require.NotContains(t, strings.ReplaceAll(page, scriptSource, ""), "ZgotmplZ")
	for _, r := range page {
		require.True(t, r == '\n' || r == '\t' || unicode.IsPrint(r), "%q", r)
	}
	require.NotRegexp(t, `https?:|url\(|@import`, styleSource+scriptSource)
}

func TestHostileNamesAreText(t *testing.T) {
	var weights []weight
	for i, name := range hostile {
		weights = append(weights, weight{kernel: name, size: 1000 + i, layout: avx2, source: byte(i)},
			weight{kernel: name + "/inner." + name, size: 500, layout: avx512, source: byte(i)},
			weight{kernel: name + "'s other name", layout: avx512, source: byte(i + 1), shared: true})
	}
	requireHarmless(t, rendered(t, sample(t, weights), sampleOptions))
	for _, path := range hostile {
		o := sampleOptions
		o.Path, o.Notes, o.Tool = path, []string{path}, path
		requireHarmless(t, rendered(t, sample(t, models()...), o))
	}
	described := avx2
	for _, text := range hostile {
		avx2.Description = text
		requireHarmless(t, rendered(t, sample(t, models()...), sampleOptions))
	}
	avx2 = described
}

func TestAPageStaysSmall(t *testing.T) {
	long := strings.Repeat(`"`, 60)
	random := rand.New(rand.NewPCG(1, 2))
	for name, text := range map[string]func(i int) string{
		"layers":        kernelName,
		"no layers":     func(i int) string { return fmt.Sprintf("weight%d", i) },
		"one name":      func(int) string { return "weight" },
		"escaped names": func(i int) string { return fmt.Sprintf("%s%d/%s%d/%s%d", long, i%40, long, i%900, long, i) },
		"wide letters":  func(i int) string { return strings.Repeat("\U0001F600/", i%30) + fmt.Sprint(i) },
		"random": func(int) string {
			var b strings.Builder
			for range random.IntN(20) {
				fmt.Fprintf(&b, "%d%c", random.IntN(3), "./"[random.IntN(2)])
			}
			return b.String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := 10_000
			if name == "layers" {
				n = 100_000
			}
			weights := manyWeights(n, text)
			for i := range weights {
				weights[i].shared = i%5 == 4
				weights[i].layout = []format.Layout{avx2, avx512}[i%2]
			}
			page := rendered(t, sample(t, weights), sampleOptions) // which checks MaxBytes
			t.Log(len(page), "bytes")
			root := parsed(t, page)
			require.LessOrEqual(t, len(root.boxes()), mostBoxes+1)
			require.Greater(t, len(root.boxes()), 20)
			for _, b := range root.boxes() {
				_, zooms := b.attr["data-name"]
				require.Equal(t, b.attr["class"] == "box g", zooms, b.attr["title"])
			}
		})
	}
}

func TestABoxesChildrenFillItAndDoNotOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		sizes := make([]float64, 1+random.IntN(60))
		total := 0.0
		for i := range sizes {
			sizes[i] = float64(random.IntN(1000))
			total += sizes[i]
		}
		sizes[0]++
		total++
		for i := range sizes {
			for k := i; k > 0 && sizes[k] > sizes[k-1]; k-- {
				sizes[k], sizes[k-1] = sizes[k-1], sizes[k]
			}
		}
		in := rectangle{0, 0, 1 + 1000*random.Float64(), 1 + 1000*random.Float64()}
		parts := divide(in, sizes)
		require.Len(t, parts, len(sizes))
		const little = 1e-6
		for i, p := range parts {
			require.InDelta(t, sizes[i]/total*in.width*in.height, p.width*p.height, 1e-3)
			require.GreaterOrEqual(t, p.x, -little)
			require.GreaterOrEqual(t, p.y, -little)
			require.LessOrEqual(t, p.x+p.width, in.width+little)
			require.LessOrEqual(t, p.y+p.height, in.height+little)
			for _, q := range parts[:i] {
				across := min(p.x+p.width, q.x+q.width) - max(p.x, q.x)
				down := min(p.y+p.height, q.y+q.height) - max(p.y, q.y)
				require.False(t, across > little && down > little, "%v and %v", p, q)
			}
		}
	}
	for _, sizes := range [][]float64{nil, {0}, {0, 0, 0}, {5, 0, 0}} {
		require.Len(t, divide(rectangle{0, 0, 10, 10}, sizes), len(sizes))
		require.Len(t, divide(rectangle{}, sizes), len(sizes))
	}
}
