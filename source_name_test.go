package xpwc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

func TestAFileCallsASourceByTheLastPartOfItsPath(t *testing.T) {
	for source, name := range map[string]string{
		"":                                 "",
		"/srv/models/pose.tflite":          "pose.tflite",
		"https://host/models/pose.tflite/": "pose.tflite",
		"weights of the service":           "weights of the service",
		"/srv/\x1b[2Jpose.tflite":          "?[2Jpose.tflite",
	} {
		require.Equal(t, name, sourceName(source), source)
	}
}

func TestPruneKeepsWhatMayBeOfTheSourcesThatAreNamed(t *testing.T) {
	of := func(source, name string) *format.Record {
		r := &format.Record{SourceName: name}
		if source != "" {
			r.Source = digest.OfStrings(source)
		}
		return r
	}
	keeps := keepSources([]string{"/a/pose.tflite", "hand.tflite"})
	for _, kept := range []*format.Record{of("/a/pose.tflite", "pose.tflite"), of("/a/pose.tflite", ""),
		of("/b/hand.tflite", "hand.tflite"), of("", ""), of("", "pose.tflite"), of("", "hand.tflite")} {
		require.True(t, keeps(kept), kept.SourceName)
	}
	for _, dropped := range []*format.Record{of("/b/pose.tflite", "pose.tflite"), of("/b/face.tflite", ""),
		of("", "face.tflite")} {
		require.False(t, keeps(dropped), dropped.SourceName)
	}
	require.False(t, keepSources([]string{""})(of("/b/face.tflite", "")), "what has no name is not called so")
}
