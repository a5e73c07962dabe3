package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// anchors returns the names that headings of a document have in links.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	code := false
	for line := range strings.Lines(text) {
		code = code != strings.HasPrefix(line, "```")
		if heading := strings.TrimLeft(line, "#"); !code && heading != line {
			name := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")
			names[regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(name, "")] = true
		}
	}
	return names
}

// followed returns an error if a link of a document leads nowhere. Links to other places than this module are not
// followed.
func followed(document, link string) error {
	if strings.Contains(link, "://") {
		return nil
	}
	path, anchor, _ := strings.Cut(link, "#")
	target := document
	if path != "" {
		target = filepath.Join(filepath.Dir(document), path)
	}
	info, err := os.Stat(target)
	if err != nil || info.IsDir() && anchor == "" {
		return err
	}
	text, err := os.ReadFile(target)
	if err == nil && anchor != "" && !anchors(string(text))[anchor] {
		return errors.New(target + " has no heading #" + anchor)
	}
	return err
}

func TestEveryLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	snippets := regexp.MustCompile("(?ms)^```.*?^```")
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(snippets.ReplaceAllString(string(text), ""), -1) {
			require.NoError(t, followed(document, m[1]), "%s links %s", document, m[1])
		}
	}
	require.NoError(t, followed("README.md", "docs/guide-go.md#which-xnnpack"))
	require.ErrorIs(t, followed("README.md", "docs/absent.md"), fs.ErrNotExist)
	require.ErrorContains(t, followed("README.md", "docs/guide-go.md#absent"), "no heading")
}

// packagesOf returns the directories of the packages that a document names: in backquotes, after go doc or go test.
func packagesOf(text string) (directories []string) {
	for _, m := range regexp.MustCompile("(?:`|go doc )xpwc/([a-z_/]+)").FindAllStringSubmatch(text, -1) {
		directories = append(directories, m[1])
	}
	for _, m := range regexp.MustCompile("go test [^`\n]*\\./([a-z_/]+)").FindAllStringSubmatch(text, -1) {
		directories = append(directories, m[1])
	}
	return directories
}

func TestEveryPackageThatTheDocumentsNameIsThere(t *testing.T) {
	count := 0
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, directory := range packagesOf(string(text)) {
			files, err := filepath.Glob(filepath.Join(directory, "*.go"))
			require.NoError(t, err)
			require.NotEmpty(t, files, "%s names package %s", document, directory)
			count++
		}
	}
	require.Greater(t, count, 5)
	named := packagesOf("`xpwc/models/litert` and go test -short ./absent")
	require.Equal(t, []string{"models/litert", "absent"}, named)
}
