package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"xpwc/internal/mapped"
)

// parseIndex reads what Hugging Face's libraries write next to the files of a sharded model: for each tensor the file
// that has it, next to the index.
func parseIndex(text []byte) (map[string]string, error) {
	if len(text) > maxHeader {
		return nil, malformed("an index of %d bytes, more than %d", len(text), maxHeader)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, malformed("index: %v", err)
	}
	if index.WeightMap == nil {
		return nil, malformed("index: no weight_map")
	}
	for name, file := range index.WeightMap {
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			return nil, malformed("index: tensor %q: %q is not a file beside the index", name, file)
		}
	}
	return index.WeightMap, nil
}

func readIndex(path string) (map[string]string, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	files, err := parseIndex(m.Data())
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return files, errors.Join(err, m.Close())
}

// openIndex opens every file that an index names. Their tensors that it does not name are left out.
func openIndex(path string) (*File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	files, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: absolute, byName: make(map[string]*located, len(files))}
	for _, file := range slices.Compact(slices.Sorted(maps.Values(files))) {
		shard := filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
		if _, err := f.addShard(shard, func(name string) bool { return files[name] == file }); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, ok := f.byName[name]; !ok {
			err := malformed("index: tensor %q is not in %s", name, files[name])
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
	}
	return f, nil
}
