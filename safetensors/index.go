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

// index is what Hugging Face's libraries write beside the files of a sharded model.
type index struct {
	// WeightMap gives for each tensor the file that has it, beside the index.
	WeightMap map[string]string `json:"weight_map"`
}

func parseIndex(text []byte) (*index, error) {
	if len(text) > maxHeader {
		return nil, malformed("an index of %d bytes, more than %d", len(text), maxHeader)
	}
	i := &index{}
	if err := json.Unmarshal(text, i); err != nil {
		return nil, malformed("index: %v", err)
	}
	if i.WeightMap == nil {
		return nil, malformed("index: no weight_map")
	}
	for name, file := range i.WeightMap {
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			return nil, malformed("index: tensor %q: %q is not a file beside the index", name, file)
		}
	}
	return i, nil
}

func readIndex(path string) (*index, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	i, err := parseIndex(m.Data())
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return i, errors.Join(err, m.Close())
}

// openIndex opens every file that an index names. Their tensors that it does not name are left out.
func openIndex(path string) (*File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	i, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: absolute, byName: make(map[string]*located, len(i.WeightMap))}
	for _, file := range slices.Compact(slices.Sorted(maps.Values(i.WeightMap))) {
		shard := filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
		if _, err := f.addShard(shard, func(name string) bool { return i.WeightMap[name] == file }); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.WeightMap)) {
		if _, ok := f.byName[name]; !ok {
			err := malformed("index: tensor %q is not in %s", name, i.WeightMap[name])
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
	}
	return f, nil
}
