package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"xpwc/models/litert"
	"xpwc/xnnpack/packing"
)

// One type, whatever package shows it.
var _ = []packing.Digest{Fingerprint{}}

var sample = Layout{
	Fingerprint: Fingerprint{0xab, 15: 0xcd}, Description: "amd64 avx2, XNNPACK 12345678", Format: 2, Entries: 116,
	PayloadBytes: 53_000_000, FileBytes: 53_100_000,
}

// sampleIndex returns an index of layouts whose fingerprints begin with the bytes given.
func sampleIndex(t testing.TB, firsts ...byte) []byte {
	t.Helper()
	var manifests []ocispec.Descriptor
	for _, first := range firsts {
		l := sample
		l.Fingerprint[0] = first
		d, _, err := encodeManifest(l, sampleCache())
		require.NoError(t, err)
		manifests = append(manifests, d)
	}
	_, b, err := encodeIndex(manifests, nil)
	require.NoError(t, err)
	return b
}

func sampleCache() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: CacheMediaType, Digest: digest.FromString("cache"), Size: sample.FileBytes}
}

func sampleManifest(t testing.TB) []byte {
	t.Helper()
	_, b, err := encodeManifest(sample, sampleCache())
	require.NoError(t, err)
	return b
}

func TestAnIndexSaysWhatThereIs(t *testing.T) {
	b := sampleIndex(t, 3, 1, 2)
	require.Equal(t, b, sampleIndex(t, 2, 3, 1), "in whatever order it was made")
	listed, err := decodeIndex(b)
	require.NoError(t, err)
	require.Len(t, listed.manifests, 3)
	for i, l := range listed.layouts {
		want := sample
		want.Fingerprint[0] = byte(i + 1)
		want.Manifest = listed.manifests[i].Digest.String()
		require.Equal(t, want, l)
		require.Equal(t, &ocispec.Platform{Architecture: "amd64", OS: "linux"}, listed.manifests[i].Platform)
	}
}

// A later xpwc may push files of a later version next to today's, for the same LiteRT and CPU.
func TestAFileForLiteRTOfAnotherVersionDoesNotHideTheOneThatIsKnown(t *testing.T) {
	target := litert.Target{Version: "2.3.0", Architecture: "amd64", CPU: "avx2"}
	native := Layout{Fingerprint: target.Layout(), LiteRT: target.Version, Format: litert.Version}
	newer := native
	newer.Format++
	for i, layouts := range [][]Layout{{native, newer}, {newer, native}} {
		got, err := (&listing{layouts: layouts}).find(target.Layout(), target.Version)
		require.NoError(t, err)
		require.Equal(t, i, got)
	}
	_, err := (&listing{layouts: []Layout{newer}}).find(target.Layout(), target.Version)
	require.ErrorIs(t, err, ErrVersion)
}

func TestATagThatIsTooLargeSaysOfHowManyLayoutsItIs(t *testing.T) {
	var layouts []map[string]string
	for range 20_000 {
		layouts = append(layouts, sample.annotations())
	}
	_, _, err := encode(ocispec.MediaTypeImageIndex, layouts)
	require.ErrorContains(t, err, "the index of 20000 layouts")
}

// What registries and tools of image-spec 1.0 and of 1.1 look at.
func TestManifestsFollowBothVersionsOfTheSpecification(t *testing.T) {
	var m map[string]any
	require.NoError(t, json.Unmarshal(sampleManifest(t), &m))
	require.EqualValues(t, 2, m["schemaVersion"])
	require.Equal(t, ocispec.MediaTypeImageManifest, m["mediaType"])
	require.Equal(t, ArtifactType, m["artifactType"], "1.1, manifest.md")
	config := m["config"].(map[string]any)
	require.Equal(t, ConfigMediaType, config["mediaType"], "1.0: the artifact's type")
	require.Equal(t, digest.FromString("{}").String(), config["digest"])
	require.EqualValues(t, 2, config["size"])
	for _, v := range m["annotations"].(map[string]any) {
		require.IsType(t, "", v)
	}
	require.NotContains(t, m["annotations"], ocispec.AnnotationCreated,
		"the same entries are the same manifest, at any time")

	require.NoError(t, json.Unmarshal(sampleIndex(t, 1), &m))
	require.Equal(t, ocispec.MediaTypeImageIndex, m["mediaType"])
	require.Equal(t, ArtifactType, m["artifactType"])
}

func TestWhatIsNoIndexOfPackedWeightsIsAnError(t *testing.T) {
	good := string(sampleIndex(t, 1, 2))
	for name, text := range map[string]string{
		"no JSON": good[1:],
		"another type": strings.Replace(good,
			`"artifactType":"`+ArtifactType, `"artifactType":"application/vnd.example`, 1),
		"another media type":  strings.Replace(good, ocispec.MediaTypeImageIndex, "application/json", 1),
		"no fingerprint":      strings.ReplaceAll(good, annotationLayout+`"`, `other"`),
		"a short fingerprint": strings.Replace(good, annotationLayout+`":"01000000`, annotationLayout+`":"0100`, 1),
		"a negative number":   strings.Replace(good, `entries":"116"`, `entries":"-1"`, 1),
		"a digest of nothing": strings.Replace(good, `sha256:`, `sha256:0`, 1),
		"a subject of nothing": strings.Replace(good, `"manifests"`,
			`"subject":{"mediaType":"a/b","digest":"sha256:1","size":1},"manifests"`, 1),
		"a layout twice": strings.Replace(good, annotationLayout+`":"02000000`, annotationLayout+`":"01000000`, 1),
	} {
		require.NotEqual(t, good, text, name)
		_, err := decodeIndex([]byte(text))
		require.ErrorIs(t, err, ErrOtherArtifact, name)
	}
}

func TestAFingerprintIsReadAsItIsWritten(t *testing.T) {
	f, err := ParseFingerprint(sample.Fingerprint.String())
	require.NoError(t, err)
	require.Equal(t, sample.Fingerprint, f)
	for _, s := range []string{"", "ab", strings.Repeat("g", 32), strings.Repeat("a", 31), strings.Repeat("a", 34)} {
		_, err := ParseFingerprint(s)
		require.ErrorContains(t, err, "32 hexadecimal digits", s)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(sampleIndex(f, 1, 2))
	f.Add(bytes.ReplaceAll(sampleIndex(f, 1), []byte(`{"`+annotationEntries), []byte(`{"`+annotationLiteRT+
		`":"2.3.0","`+annotationModel+`":"aa","`+annotationEntries)))
	f.Add([]byte(`{"mediaType":"` + ocispec.MediaTypeImageIndex + `","artifactType":"` + ArtifactType +
		`","manifests":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		listed, err := decodeIndex(b)
		if err != nil {
			require.True(t, errors.Is(err, ErrOtherArtifact))
			return
		}
		_, encoded, err := encodeIndex(listed.manifests, listed.subject)
		require.NoError(t, err)
		decoded, err := decodeIndex(encoded)
		require.NoError(t, err)
		require.ElementsMatch(t, listed.layouts, decoded.layouts)
		require.Equal(t, listed.subject, decoded.subject)
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(sampleManifest(f))
	f.Add(bytes.ReplaceAll(sampleManifest(f), []byte(CacheMediaType), []byte(LiteRTMediaType)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			require.ErrorIs(t, err, ErrOtherArtifact)
			return
		}
		require.Len(t, m.Layers, 1)
		require.NoError(t, m.Layers[0].Digest.Validate())
		require.GreaterOrEqual(t, m.Layers[0].Size, int64(0))
	})
}
